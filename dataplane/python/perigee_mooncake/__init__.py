"""What Perigee's wheel has under a name of its own: its programs, and the guard of the name `mooncake`.

The folder `mooncake` may be shared with, and overwritten by, a wheel of Mooncake itself; this one is not.
"""
