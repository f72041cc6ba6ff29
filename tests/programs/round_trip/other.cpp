// The other half of features.cpp.
#include "shared.h"

namespace {
struct Circle : Shape {
    int area() const override { return 314; }
};
} // namespace

std::unique_ptr<Shape> make_circle() { return std::make_unique<Circle>(); }
int other_counter() { return counter(); }
void other_throws(int n) {
    Guarded guard(n);
    if (sum(std::vector<int>{n, n}) == 2 * n)
        throw Custom{n};
}
void rethrow() {
    try {
        std::vector<int>(3).at(5);
    } catch (...) {
        throw;
    }
}
