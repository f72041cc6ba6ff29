// Shared by the executable and the shared library of the C++ feature program.
#pragma once
#include <stdexcept>
#include <string>

struct Base {
  virtual ~Base() = default;
  virtual std::string name() const { return "base"; }
};
struct Left : virtual Base {
  std::string name() const override { return "left"; }
};
struct Right : virtual Base {};

struct LibraryError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// One object in the whole process, whoever defines it.
inline int inline_variable = 1;
template <class T>
int &instance_of() {
  static int value = 0;
  return value;
}

void throw_error(int kind);
void call_and_rethrow(void (*function)());
Base *make_derived();
bool library_knows(const Base &object);
int *library_inline_variable();
int *library_instance();
extern thread_local std::string library_thread_text;
