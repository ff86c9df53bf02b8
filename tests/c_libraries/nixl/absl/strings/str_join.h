/* Stands in for what NIXL's lists print themselves with, from Abseil. */
#pragma once
#include <cstring>
#include <sstream>
#include <string>

namespace absl {

inline auto PairFormatter(const std::string &between) {
    return [between](std::string *all, const auto &pair) {
        std::ostringstream text;
        text << pair.first << between << pair.second;
        *all += text.str();
    };
}

template <class List, class Formatter>
std::string StrJoin(const List &list, const std::string &separator, Formatter &&format) {
    std::string all;
    for (const auto &one : list) {
        if (!all.empty()) all += separator;
        format(&all, one);
    }
    return all;
}

}  // namespace absl
