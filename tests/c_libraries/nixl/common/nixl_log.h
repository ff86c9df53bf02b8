/* Stands in for NIXL's own log, which needs an Abseil newer than distributions have. */
#pragma once
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>

struct SilentLog {
    template <class Value> SilentLog &operator<<(const Value &) { return *this; }
};

#define NIXL_ERROR SilentLog()
#define NIXL_WARN SilentLog()
#define NIXL_INFO SilentLog()
#define NIXL_DEBUG SilentLog()
#define NIXL_TRACE SilentLog()
#define NIXL_ASSERT(condition) SilentLog()
#define NIXL_ASSERT_ALWAYS(condition) SilentLog()
