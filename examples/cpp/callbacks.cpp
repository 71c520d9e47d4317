// Callbacks: functions of the program as tasks of a stream. There are two kinds, and a stream takes only one of them:
// aclrtLaunchCallback runs on a thread of yours, aclrtLaunchHostFunc on a thread of the library.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <future>
#include <iostream>
#include <thread>
#include <vector>

#include <pthread.h>

#include "acl.hpp"

namespace {

// Reporter is a thread that runs the callbacks of a stream.
class Reporter {
public:
    // Returns when the thread is subscribed: launching a callback, or asking for one, would be refused before.
    explicit Reporter(const acl::Stream& stream) : stream_(stream.get())
    {
        aclrtContext context = nullptr;
        ACL(aclrtGetCurrentContext(&context));
        std::promise<void> subscribed;
        std::future<void> ready = subscribed.get_future();
        thread_ = std::thread([this, context, subscribed = std::move(subscribed)]() mutable {
            ACL(aclrtSetCurrentContext(context)); // threads inherit nothing
            ACL(aclrtSubscribeReport(pthread_self(), stream_));
            subscribed.set_value();
            serve();
            ACL(aclrtUnSubscribeReport(pthread_self(), stream_));
        });
        ready.wait();
    }
    ~Reporter()
    {
        aclrtSynchronizeStream(stream_); // nobody would run later what is still queued
        done_ = true;
        thread_.join();
    }
    std::thread::id id() const { return thread_.get_id(); }

private:
    // An exception here ends the program, and has to: the stream would wait for its callbacks for ever.
    void serve()
    {
        while (!done_) {
            aclError code = aclrtProcessReport(100); // runs what has come, or waits for it, here 100 ms
            if (code != ACL_ERROR_RT_REPORT_TIMEOUT)
                ACL(code);
        }
    }

    aclrtStream stream_;
    std::atomic<bool> done_{false};
    std::thread thread_;
};

// Round is what one callback looks at, and what it found.
struct Round {
    const acl::HostBuffer<char>* landing;
    char want;
    bool right = false;
    std::thread::id seen_by{};
};

// A callback must not call the library, because the stream waits for it, and must not throw through C.
void inspect(void* round) noexcept
{
    auto& r = *static_cast<Round*>(round);
    r.right = std::all_of(r.landing->begin(), r.landing->end(), [&](char c) { return c == r.want; });
    r.seen_by = std::this_thread::get_id();
}

} // namespace

int main()
{
    return acl::run([] {
        acl::Device device(0);
        constexpr std::size_t size = 64 * 1024;
        acl::HostBuffer<char> landing(size); // pinned, so that the stream and not this thread does the work
        acl::DeviceBuffer<char> memory(size);
        std::vector<Round> rounds; // lives until the callbacks have run: the stream keeps addresses
        for (char c : {'A', 'B', 'C', 'D', 'E'})
            rounds.push_back({&landing, c});
        int total = 0;

        acl::Stream stream, plain;
        Reporter reporter(stream);

        // BLOCK holds the stream until the callback has returned, so the next round cannot overwrite what is looked at.
        // With NO_BLOCK the stream would go on, and every round would need memory of its own.
        for (Round& round : rounds) {
            ACL(aclrtMemsetAsync(memory.data(), size, round.want, size, stream.get()));
            stream.copy(landing, memory);
            ACL(aclrtLaunchCallback(inspect, &round, ACL_CALLBACK_BLOCK, stream.get()));
        }
        stream.synchronize(); // callbacks are tasks like others: they have run, too
        for (const Round& round : rounds)
            acl::expect(round.right && round.seen_by == reporter.id(), "a round was not right, or seen by another thread");
        std::cout << "The report thread checked all " << rounds.size() << " rounds, byte by byte.\n";

        // The other kind. A lambda that captures nothing is a function of C; the stream runs one after the other, so
        // the number needs no lock.
        for (int i = 0; i < 5; i++)
            ACL(aclrtLaunchHostFunc(plain.get(), [](void* number) { ++*static_cast<int*>(number); }, &total));
        plain.synchronize();
        acl::expect(total == 5, "a host function did not run");
        std::cout << "The library called its host function " << total << " times.\n";
    });
}
