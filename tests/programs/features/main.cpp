// The features of C++ that a linker has to get right.
#include <cstdio>
#include <iostream>
#include <memory>
#include <mutex>
#include <sstream>
#include <thread>
#include <typeinfo>
#include <vector>

#include "shared.hpp"

int second_unit();
std::string second_name();

namespace {
struct Loud {
  const char *text;
  explicit Loud(const char *text) : text(text) { std::puts(text); }
  ~Loud() { std::printf("end of %s\n", text); }
};
Loud one("global one"), two("global two");

int recursion(int depth) {
  std::string local(static_cast<size_t>(depth), 'x');
  if (depth == 0) throw local.size();
  return recursion(depth - 1) + static_cast<int>(local.size());
}

void throws_in_executable() { throw std::out_of_range("from the executable"); }

int guarded(int seed) {
  static int value = [seed] {
    std::puts("initialised once");
    return seed;
  }();
  return value;
}
}  // namespace

int main() {
  for (int kind = 0; kind < 3; kind++) {
    try {
      throw_error(kind);
    } catch (const LibraryError &error) {
      std::printf("caught %s\n", error.what());
    } catch (int number) {
      std::printf("caught %d\n", number);
    } catch (const std::string &text) {
      std::printf("caught %s\n", text.c_str());
    }
  }
  try {
    call_and_rethrow(throws_in_executable);
  } catch (const std::logic_error &error) {
    std::printf("caught %s\n", error.what());
  }
  try {
    recursion(200);
  } catch (size_t depth) {
    std::printf("unwound to %zu\n", depth);
  }
  std::unique_ptr<Base> object(make_derived());
  std::printf("%s %d %d\n", object->name().c_str(), dynamic_cast<Right *>(object.get()) != nullptr,
              dynamic_cast<Left *>(object.get()) != nullptr);
  std::printf("type identity %d\n", library_knows(Left()));
  std::printf("inline variable %d\n", library_inline_variable() == &inline_variable);
  instance_of<long>() = 5;
  std::printf("template static %d %d\n", *library_instance(), library_instance() == &instance_of<long>());
  int first = guarded(4), again = guarded(5);
  std::printf("guarded %d %d\n", first, again);
  std::printf("second unit %d %s\n", second_unit(), second_name().c_str());

  std::mutex mutex;
  std::vector<std::thread> threads;
  int total = 0;
  library_thread_text = "main's";
  for (int i = 0; i < 4; i++) {
    threads.emplace_back([&, i] {
      library_thread_text += std::to_string(i);
      std::lock_guard<std::mutex> lock(mutex);
      total += static_cast<int>(library_thread_text.size());
    });
  }
  for (auto &thread : threads) thread.join();
  std::cout << "threads " << total << ' ' << library_thread_text << std::endl;
  std::ostringstream text;
  text << 1.5 << ' ' << true << ' ' << std::hex << 255;
  std::printf("stream %s\n", text.str().c_str());
  return 7;
}
