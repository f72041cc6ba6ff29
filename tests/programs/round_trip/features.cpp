// What C++ puts into an object file: exceptions, COMDAT, vtables, type
// information, guards, thread-local objects. Linked with other.cpp, with
// which it shares shared.h.
#include "shared.h"
#include <iostream>
#include <memory>
#include <thread>

namespace {
struct Local : Shape {
    int side;
    explicit Local(int s) : side(s) {}
    int area() const override { return side * side; }
    ~Local() override { ++destroyed; }
    static int destroyed;
};
int Local::destroyed = 0;

struct Early {
    Early() { trail() += "early "; }
};
struct Late {
    Late() { trail() += "late "; }
};
__attribute__((init_priority(2000))) Late late;
__attribute__((init_priority(1000))) Early early;

thread_local std::string per_thread = "fresh";

int thrower(int n) {
    switch (n) {
    case 0: throw 42;
    case 1: throw std::runtime_error("runtime");
    case 2: throw Custom{7};
    case 3: throw std::string("text");
    default: return n;
    }
}

std::string catcher(int n) {
    Guarded guard(n);
    try {
        std::unique_ptr<Shape> shape = std::make_unique<Local>(n);
        return "value " + std::to_string(thrower(n) + shape->area());
    } catch (int value) {
        return "int " + std::to_string(value);
    } catch (const std::exception &error) {
        return std::string("exception ") + error.what();
    } catch (const Custom &custom) {
        return "custom " + std::to_string(custom.value);
    } catch (...) {
        return "other";
    }
}
} // namespace

int main() {
    std::cout << trail() << "\n";
    for (int n = 0; n < 6; n++)
        std::cout << catcher(n) << " " << Guarded::depth << "\n";
    std::cout << Local::destroyed << " " << sum(std::vector<int>{1, 2, 3}) << " "
              << sum(std::vector<double>{0.5, 0.25}) << "\n";
    std::thread([] {
        per_thread += " thread";
        std::cout << per_thread << "\n";
    }).join();
    std::cout << per_thread << " " << counter() << counter() << other_counter() << "\n";
    try {
        other_throws(3);
    } catch (const Custom &custom) {
        std::cout << "from other " << custom.value << "\n";
    }
    std::unique_ptr<Shape> circle = make_circle();
    std::cout << circle->area() << " " << (dynamic_cast<Local *>(circle.get()) == nullptr) << " "
              << inline_variable << " " << Table<5>::values[4] << "\n";
    try {
        rethrow();
    } catch (const std::out_of_range &error) {
        std::cout << "rethrown\n";
    }
}
