/* What the programs of these tests share: a check that says where it failed. */
#ifndef CHECK_H
#define CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                         \
    do {                                                                         \
        if (!(condition)) {                                                      \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);      \
            exit(1);                                                             \
        }                                                                        \
    } while (0)

#define CHECK_EQUAL(found, expected)                                             \
    do {                                                                         \
        long long found_ = (long long)(found), expected_ = (long long)(expected); \
        if (found_ != expected_) {                                               \
            fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__,  \
                    #found, found_, expected_);                                  \
            exit(1);                                                             \
        }                                                                        \
    } while (0)

/* Longest wait for anything, in seconds. */
#define PATIENCE_S 60

static inline time_t deadline(void) { return time(NULL) + PATIENCE_S; }

/* The pause between two looks. */
static inline void pause_a_moment(void) {
    struct timespec moment = {0, 1000000};
    nanosleep(&moment, NULL);
}

/* Ends a forked process. To the leak checker what the parent's threads had is lost there. */
static inline void end_child(void) {
#ifdef __SANITIZE_ADDRESS__
    _exit(0);
#else
    exit(0);
#endif
}

static inline unsigned char pattern(size_t index) {
    return (unsigned char)((index * 7) ^ (index >> 9));
}

#endif
