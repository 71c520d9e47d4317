/*
 * An owner that forbids no copies: both copies destroy the event.
 *
 * finds: double-free (error)
 * offence: called aclrtDestroyEvent in ~Owner at OFFENCE
 * other: freed aclrtDestroyEvent in ~Owner at OFFENCE
 * other: made aclrtCreateEvent in Owner at ALLOCATED
 */
#include "program.h"

struct Owner {
    aclrtEvent event;
    Owner() { ACL(aclrtCreateEvent(&event)); } // ALLOCATED
    ~Owner()
    {
        if (event)
            aclrtDestroyEvent(event); // OFFENCE
    }
#ifdef FIXED
    Owner(Owner &&other) : event(other.event) { other.event = nullptr; }
#endif
};

int main()
{
    aclrtStream stream = start();
    {
        Owner first;
        Owner second = static_cast<Owner &&>(first);
    }
    finish(stream);
}
