// The second unit: it instantiates what main.cpp instantiates too.
#include <sstream>
#include <vector>

#include "shared.hpp"

int second_unit() {
  std::vector<std::string> names;
  for (int i = 0; i < 20; i++) names.push_back(std::to_string(i));
  std::ostringstream text;
  for (const auto &name : names) text << name;
  return instance_of<long>() + inline_variable + static_cast<int>(text.str().size());
}

std::string second_name() { return Left().name(); }
