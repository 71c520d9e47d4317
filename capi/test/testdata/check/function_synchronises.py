"""A function in the order of a stream synchronises the stream before it takes a result: it waits for itself.

finds: deadlock (error)
offence: called acl.rt.synchronize_stream_with_timeout in take at OFFENCE
other: submitted acl.rt.launch_host_func in main at SUBMIT on stream 1, task 1
"""

import acl

from program import FIXED, finish, ok, start


def take(stream):
    if not FIXED and acl.rt.synchronize_stream_with_timeout(stream, 10) == 0:  # OFFENCE
        raise SystemExit("the stream was synchronised")


def main():
    stream = start()
    ok(acl.rt.launch_host_func(stream, take, stream))  # SUBMIT
    ok(acl.rt.synchronize_stream(stream))
    finish(stream)


main()
