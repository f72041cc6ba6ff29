// What the assembly in functions does beside its function.
//
// LLVM knows nothing of what is in a statement of assembly. As a rule that is instructions, which go where the function goes. But a directive may put
// something elsewhere (`.pushsection`, as probes and tables of exceptions do), or define a symbol; and an operand may be a name of
// something in this file. Whoever inlines the function does the same. So the text is read statement by statement, and what is
// not certain to stay in its place is named; what is quoted, and all macros, are not certain. Nor is it certain what a name is that an operand
// is a part of, or what a private symbol is called, or will be.

#include "assembly.h"
#include "walk.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/InstrTypes.h"
#include "llvm/IR/Module.h"

using namespace llvm;

namespace repo {
namespace {

/// Directives that write bytes where they stand, or say how the unwinder gets on from there.
const StringSet<> &in_place() {
  static const StringSet<> names = {
      ".byte", ".2byte", ".4byte", ".8byte", ".short", ".hword", ".value", ".word", ".int",
      ".long", ".quad", ".octa", ".float", ".single", ".double", ".zero", ".skip", ".space",
      ".fill", ".align", ".balign", ".p2align", ".nops", ".sleb128", ".uleb128",
      ".att_syntax", ".intel_syntax", ".cfi_adjust_cfa_offset", ".cfi_def_cfa",
      ".cfi_def_cfa_offset", ".cfi_def_cfa_register", ".cfi_escape", ".cfi_offset",
      ".cfi_register", ".cfi_rel_offset", ".cfi_remember_state", ".cfi_restore",
      ".cfi_restore_state", ".cfi_same_value", ".cfi_undefined"};
  return names;
}

/// The text without comments.
std::string without_comments(StringRef text) {
  std::string plain;
  for (size_t at = 0; at < text.size();) {
    if (text.substr(at).starts_with("/*")) {
      size_t end = text.find("*/", at + 2);
      plain += ' ';
      at = end == StringRef::npos ? text.size() : end + 2;
    } else if (text[at] == '#' || text.substr(at).starts_with("//")) {
      at = std::min(text.find('\n', at), text.size());
    } else {
      plain += text[at++];
    }
  }
  return plain;
}

/// Whether a statement, with the labels before it, stays where it is.
bool stays(StringRef statement) {
  while (true) {
    statement = statement.ltrim();
    if (statement.empty())
      return true;
    // A word; what `${` begins, which may be a number for this place alone, is a part of it.
    size_t end = 0;
    bool is_of_place = false;
    while (end < statement.size() && !isSpace(statement[end]) && statement[end] != ':' &&
           statement[end] != '=') {
      if (statement.substr(end).starts_with("${")) {
        size_t close = statement.find('}', end);
        if (close == StringRef::npos)
          return false;
        is_of_place |= statement.slice(end, close + 1) == "${:uid}";
        end = close;
      }
      ++end;
    }
    StringRef word = statement.take_front(end);
    StringRef rest = statement.drop_front(end).ltrim();
    if (rest.starts_with("="))
      return false;
    if (!rest.starts_with(":"))
      return word.starts_with(".") ? in_place().contains(word)
                                   : !word.empty() && isAlpha(word[0]);
    // Other labels can be named from elsewhere.
    if (!is_of_place && (word.empty() || !all_of(word, isDigit)))
      return false;
    statement = rest.drop_front();
  }
}

/// Whether all that this assembly makes is where it stands.
bool stays_in_place(StringRef assembly) {
  if (assembly.find_first_of("\"'\r\v\f") != StringRef::npos)
    return false;
  std::string plain = without_comments(assembly);
  // `$(`, `$|` and `$)` are around what is written in one dialect and in the other: operands, as a rule.
  bool has_dialects = StringRef(plain).contains("$|");
  for (size_t at = 0; at + 1 < plain.size(); ++at) {
    if (plain[at] == '$' && StringRef("(|)").contains(plain[at + 1]))
      plain[at] = plain[at + 1] = ' ';
    // `$$` is a dollar.
    at += plain[at] == '$' && plain[at + 1] == '$';
  }
  if (has_dialects && StringRef(plain).find_first_of(".:") != StringRef::npos)
    return false;
  SmallVector<StringRef, 8> lines, statements;
  StringRef(plain).split(lines, '\n');
  for (StringRef line : lines)
    line.split(statements, ';');
  return all_of(statements, stays);
}

bool is_part_of_names(char letter) {
  return isAlnum(letter) || letter == '_' || letter == '.' || (letter & 0x80);
}

/// Whether all names in it stand in the text as they are, and are none of private symbols.
bool says_names(StringRef assembly) {
  for (size_t at = 0; at < assembly.size(); ++at) {
    if (assembly[at] == '.' && assembly.substr(at).starts_with(".L") &&
        (at == 0 || !is_part_of_names(assembly[at - 1]))) {
      // A label of this place alone.
      StringRef label = assembly.substr(at).take_until([](char letter) { return isSpace(letter); });
      if (!label.contains("${:uid}"))
        return false;
      at += label.size() - 1;
      continue;
    }
    if (assembly[at] != '$' || at + 1 == assembly.size())
      continue;
    char next = assembly[at + 1];
    if (next == '$') {
      ++at;
      continue;
    }
    size_t end = at + 1;
    if (next == '{')
      end = std::min(assembly.find('}', at), assembly.size());
    else if (isDigit(next))
      while (end + 1 < assembly.size() && isDigit(assembly[end + 1]))
        ++end;
    bool is_before = at && is_part_of_names(assembly[at - 1]);
    bool is_behind = end + 1 < assembly.size() && is_part_of_names(assembly[end + 1]);
    // What is for one dialect or the other begins and ends in the middle of a name, or not.
    if ((is_before && next != '|' && next != ')') || (is_behind && next != '|' && next != '('))
      return false;
    at = end;
  }
  return true;
}

/// What may be names in it.
void add_names(StringRef assembly, StringSet<> &names) {
  for (size_t at = 0; at < assembly.size();) {
    size_t start = at;
    while (at < assembly.size() && is_part_of_names(assembly[at]))
      ++at;
    if (at > start)
      names.insert(assembly.slice(start, at));
    else
      ++at;
  }
}

/// All assembly in functions, each once.
SmallVector<const InlineAsm *, 0> in_functions(const Module &module) {
  SmallDenseSet<const InlineAsm *, 16> seen;
  SmallVector<const InlineAsm *, 0> all;
  for (const Function &function : module)
    for (const Instruction &instruction : instructions(function)) {
      auto *call = dyn_cast<CallBase>(&instruction);
      auto *assembly = call ? dyn_cast<InlineAsm>(call->getCalledOperand()) : nullptr;
      if (assembly && seen.insert(assembly).second)
        all.push_back(assembly);
    }
  return all;
}

bool reads_files(StringRef assembly) {
  return repo_assembly_may_read(assembly.bytes_begin(), assembly.size());
}

} // namespace

bool assembly_reads_files(const Module &module) {
  return reads_files(module.getModuleInlineAsm()) ||
         any_of(in_functions(module),
                [](const InlineAsm *it) { return reads_files(it->getAsmString()); });
}

const char *beside_functions(const Module &module) {
  StringSet<> names;
  for (const InlineAsm *assembly : in_functions(module)) {
    if (!stays_in_place(assembly->getAsmString()))
      return "assembly that does something beside its function";
    if (!says_names(assembly->getAsmString()))
      return "assembly in which names cannot be told";
    add_names(assembly->getAsmString(), names);
  }
  if (names.empty())
    return nullptr;
  for (const GlobalValue &value : module.global_values()) {
    if (value.isDeclaration() || !(value.hasLocalLinkage() || value.isDiscardableIfUnused()))
      continue;
    // (What is in quotes is none of these, and of a dollar nobody knows.)
    StringRef name = GlobalValue::dropLLVMManglingEscape(value.getName());
    if (names.contains(name) || name.contains('$'))
      return "assembly that names what is in no other file";
  }
  return nullptr;
}

} // namespace repo
