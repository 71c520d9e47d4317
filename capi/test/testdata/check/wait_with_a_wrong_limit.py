"""A wait has a limit that does not exist, so it waits for nothing, and what it returns is dropped.

finds: api-error (warning)
offence: called acl.rt.synchronize_stream_with_timeout in wait at OFFENCE
count: 3
"""

import acl

from program import FIXED, finish, ok, start

LIMIT = 1000 if FIXED else -2  # -1 is for ever, and nothing else is below 0


def wait(stream):
    acl.rt.synchronize_stream_with_timeout(stream, LIMIT)  # OFFENCE


def main():
    stream = start()
    for _ in range(3):
        wait(stream)
    finish(stream)


main()
