// The shared library of the C++ feature program.
#include "shared.hpp"

#include <cstdio>
#include <typeinfo>

namespace {
struct Derived : Left, Right {
  std::string name() const override { return "derived of " + Left::name(); }
};
struct Loud {
  const char *text;
  explicit Loud(const char *text) : text(text) { std::puts(text); }
  ~Loud() { std::printf("end of %s\n", text); }
} loud("library constructed");
}  // namespace

thread_local std::string library_thread_text = "fresh";

void throw_error(int kind) {
  Loud guard("unwinding");
  if (kind == 0) throw LibraryError("from the library");
  if (kind == 1) throw 17;
  throw std::string("a string long enough not to be stored inline");
}

void call_and_rethrow(void (*function)()) {
  try {
    function();
  } catch (...) {
    std::puts("passing through the library");
    throw;
  }
}

Base *make_derived() { return new Derived; }
bool library_knows(const Base &object) { return typeid(object) == typeid(Left); }
int *library_inline_variable() { return &inline_variable; }
int *library_instance() { return &instance_of<long>(); }
