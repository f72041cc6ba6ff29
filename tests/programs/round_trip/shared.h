// What both halves of the C++ program define: the linker must keep one of each.
#pragma once
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

struct Shape {
    virtual int area() const = 0;
    virtual ~Shape() = default;
};
struct Custom {
    int value;
};
struct Guarded {
    static inline int depth = 0;
    explicit Guarded(int by) : amount(by) { depth += amount; }
    ~Guarded() { depth -= amount; }
    int amount;
};
template <typename T> T sum(const std::vector<T> &values) {
    T total{};
    for (const T &value : values)
        total += value;
    return total;
}
template <int N> struct Table {
    static inline const int values[N] = {1, 2, 3, 4, N};
};
inline std::string &trail() {
    static std::string text = "trail ";
    return text;
}
inline int counter() {
    static int count = 100;
    return ++count;
}
inline int inline_variable = 77;

std::unique_ptr<Shape> make_circle();
int other_counter();
void other_throws(int);
void rethrow();
