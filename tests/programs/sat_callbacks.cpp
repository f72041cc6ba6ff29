// A program on CaDiCaL's library that makes C++'s run time work: exceptions that
// start in a callback and pass through the solver's frames, several solvers in
// threads of their own, thread-local state, run-time type information, inline
// and template definitions shared with the library, constructors of globals,
// streams and locales. Every answer is checked; it prints them.

#include <atomic>
#include <exception>
#include <functional>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <typeinfo>
#include <vector>

#include "cadical.hpp"

namespace {

// Counts what is alive, to see that unwinding destroys everything.
struct Counted {
  static std::atomic<int> alive;
  Counted() { ++alive; }
  Counted(const Counted &) { ++alive; }
  ~Counted() { --alive; }
};
std::atomic<int> Counted::alive{0};

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
  Counted payload;
};
struct Virtual : virtual Error {
  Virtual() : Error("virtual") {}
};
struct Left : virtual Virtual {
  Left() : Error("left") {}
};
struct Right : virtual Virtual {
  Right() : Error("right") {}
};
struct Bottom : Left, Right {
  Bottom() : Error("bottom") {}
};

thread_local int calls = 0;
thread_local std::unique_ptr<std::string> label;

int failures = 0;
template <class Got, class Want>
void check(const std::string &name, const Got &got, const Want &want) {
  std::cout << std::left << std::setw(36) << name << got << '\n';
  if (!(got == want)) {
    std::cout << "  WRONG, want " << want << '\n';
    ++failures;
  }
}

// n + 1 pigeons in n holes: unsatisfiable, and needs a real search.
void pigeons(CaDiCaL::Solver &solver, int holes) {
  auto variable = [holes](int pigeon, int hole) { return pigeon * holes + hole + 1; };
  for (int p = 0; p <= holes; p++) {
    for (int h = 0; h < holes; h++) solver.add(variable(p, h));
    solver.add(0);
  }
  for (int h = 0; h < holes; h++)
    for (int p = 0; p <= holes; p++)
      for (int q = 0; q < p; q++) solver.clause(-variable(p, h), -variable(q, h));
}

// Random 3-SAT from a linear congruential generator: the same on every machine.
std::vector<std::vector<int>> random_clauses(int variables, int count, unsigned seed) {
  std::vector<std::vector<int>> clauses;
  auto next = [&seed](unsigned bound) {
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % bound;
  };
  for (int i = 0; i < count; i++) {
    std::vector<int> clause;
    while (clause.size() < 3) {
      int literal = static_cast<int>(next(variables)) + 1;
      clause.push_back(next(2) ? literal : -literal);
    }
    clauses.push_back(clause);
  }
  return clauses;
}

struct Throwing : CaDiCaL::ClauseIterator {
  int after;
  explicit Throwing(int after) : after(after) {}
  bool clause(const std::vector<int> &literals) override {
    Counted local;
    if (--after == 0) throw Error("clause of " + std::to_string(literals.size()));
    return true;
  }
};

struct Impatient : CaDiCaL::Terminator {
  bool terminate() override {
    Counted local;
    if (++calls == 5) throw Bottom();
    return false;
  }
};

struct Listener : CaDiCaL::Learner {
  std::map<int, int> sizes;
  bool learning(int size) override { return size <= 3; }
  void learn(int literal) override { ++sizes[literal == 0]; }
};

struct Recorder {
  std::string text = "constructed";
  ~Recorder() { std::cout << "destroyed after main: " << text << '\n'; }
} recorder;

// Exceptions through the solver's own frames.
void exceptions() {
  CaDiCaL::Solver solver;
  pigeons(solver, 6);
  try {
    Throwing iterator(17);
    solver.traverse_clauses(iterator);
    check("traverse", "returned", std::string("threw"));
  } catch (const Error &error) {
    check("traverse", std::string(error.what()), std::string("clause of 2"));
  }
  check("alive after traverse", Counted::alive.load(), 0);
  {
    auto victim = std::make_unique<CaDiCaL::Solver>();
    pigeons(*victim, 8);
    Impatient terminator;
    victim->connect_terminator(&terminator);
    try {
      victim->solve();
      check("terminate", "returned", std::string("threw"));
    } catch (const Left &left) {
      check("terminate", std::string(left.what()), std::string("bottom"));
      check("dynamic type", typeid(left) == typeid(Bottom), true);
      check("cross cast", dynamic_cast<const Right *>(&left) != nullptr, true);
    }
    // Its state is that of a solver in the middle of a search: not destroyed.
    victim.release();
  }
  check("alive after terminate", Counted::alive.load(), 0);
  std::exception_ptr kept;
  try {
    try {
      throw Error("inner");
    } catch (...) {
      std::throw_with_nested(std::logic_error("outer"));
    }
  } catch (...) {
    kept = std::current_exception();
  }
  std::thread([&kept] {
    try {
      std::rethrow_exception(kept);
    } catch (const std::exception &outer) {
      try {
        std::rethrow_if_nested(outer);
      } catch (const Error &inner) {
        check("nested", std::string(outer.what()) + " of " + inner.what(), std::string("outer of inner"));
      }
    }
  }).join();
}

void solving() {
  CaDiCaL::Solver solver;
  Listener listener;
  solver.connect_learner(&listener);
  pigeons(solver, 6);
  check("pigeons", solver.solve(), 20);
  check("learned", listener.sizes[1] > 0, true);
  solver.disconnect_learner();

  const auto clauses = random_clauses(150, 600, 7);
  CaDiCaL::Solver other;
  for (const auto &clause : clauses) other.clause(clause);
  check("random", other.solve(), 10);
  bool holds = true;
  for (const auto &clause : clauses) {
    bool satisfied = false;
    for (int literal : clause) satisfied = satisfied || other.val(literal) > 0;
    holds = holds && satisfied;
  }
  check("model holds", holds, true);
  other.assume(1);
  other.assume(-1);
  check("contradicting assumptions", other.solve(), 20);
  check("again", other.solve(), 10);
}

void threads() {
  std::vector<int> results(4), counts(4);
  std::vector<std::thread> workers;
  for (int i = 0; i < 4; i++) {
    workers.emplace_back([i, &results, &counts] {
      label = std::make_unique<std::string>("thread " + std::to_string(i));
      CaDiCaL::Solver solver;
      struct Counting : CaDiCaL::Terminator {
        bool terminate() override { return ++calls, false; }
      } counting;
      solver.connect_terminator(&counting);
      if (i % 2) {
        pigeons(solver, 5 + i / 2);
      } else {
        for (const auto &clause : random_clauses(100, 400, i)) solver.clause(clause);
      }
      results[i] = solver.solve();
      counts[i] = label->back() - '0' + (calls >= 0 ? 0 : 1000);
    });
  }
  for (auto &worker : workers) worker.join();
  check("results", std::accumulate(results.begin(), results.end(), 0), 60);
  check("thread locals", std::accumulate(counts.begin(), counts.end(), 0), 6);
  check("this thread's label", label == nullptr, true);
}

void library() {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text << std::hex << std::showbase << 255 << ' ' << std::scientific << std::setprecision(3) << 12345.678;
  check("stream", text.str(), std::string("0xff 1.235e+04"));
  std::function<int(int)> factorial = [&factorial](int n) { return n < 2 ? 1 : n * factorial(n - 1); };
  check("function", factorial(10), 3628800);
  try {
    std::vector<int>().at(3);
  } catch (const std::out_of_range &) {
    check("from libstdc++", true, true);
  }
  try {
    (void)std::stoi("not a number");
  } catch (const std::invalid_argument &error) {
    check("stoi", std::string(error.what()), std::string("stoi"));
  }
}

}  // namespace

int main() {
  check("global", recorder.text, std::string("constructed"));
  exceptions();
  solving();
  threads();
  library();
  std::cout << (failures ? "FAILED" : "passed") << std::endl;
  return failures ? 1 : 0;
}
