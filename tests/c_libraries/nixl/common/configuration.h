/* Stands in for NIXL's configuration, which needs a TOML library: variables only. */
#pragma once
#include <cstdlib>
#include <string>

namespace nixl::config {

template <class Value> Value getValueDefaulted(const std::string &name, const Value &usual) {
    const char *text = std::getenv(name.c_str());
    return text ? Value(text) : usual;
}

}  // namespace nixl::config
