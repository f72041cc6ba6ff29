// What the walk over a module gives, and what Rust gives back. The other side of this is in lib.rs.
#pragma once

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/IR/Module.h"
#include <cstdint>
#include <vector>

extern "C" {

/// A reference from a definition to another one of the module.
struct RepoReference {
  uint32_t target;
  uint32_t flags;
};

enum : uint32_t {
  /// The code of the one depends on what the other is.
  REPO_FOLLOW = 1,
  /// The other must stay as it is, as long as the one is compiled, but nothing behind it.
  REPO_HOLD = 2,
  /// The code of the one depends on who uses it: such an edge leads from what is used to its user.
  REPO_CONTRIBUTION = 4,
  /// The other must stay, with all that it needs, as long as the one is compiled.
  REPO_KEEP = 8,
  /// The other must be somewhere: with all that it needs, unless the repository has it.
  REPO_NEED = 16,
};

enum : uint32_t {
  REPO_FUNCTION = 0,
  REPO_VARIABLE = 1,
  REPO_ALIAS = 2,
  REPO_IFUNC = 3,
};

enum : uint32_t {
  /// It goes if nobody uses it.
  REPO_DISCARDABLE = 1,
  /// It has a local symbol, or none: it is part of whoever uses it.
  REPO_LOCAL = 2,
  /// It was internal, and has now a hidden name of its own.
  REPO_PROMOTED = 4,
  /// Private and constant, its address meaning nothing: its content is all that it is.
  REPO_CONTENT = 8,
  /// It is made for inlining only.
  REPO_AVAILABLE_EXTERNALLY = 16,
  /// Something that constructors may change before it is written.
  REPO_CONSTRUCTED = 32,
  /// Never taken from the repository: `reason` says why.
  REPO_NEVER = 64,
  /// Begin of a walk from constructors.
  REPO_CONSTRUCTOR = 128,
  /// A list that only LLVM reads (llvm.global_ctors, llvm.used).
  REPO_LLVM = 256,
  /// So large that nobody is to look into it: its users see a declaration, whether it is compiled or not.
  REPO_SEALED = 512,
};

struct RepoDefinition {
  const char *name;
  uint64_t name_size;
  const char *original;
  uint64_t original_size;
  const char *reason;
  uint32_t kind;
  uint32_t flags;
  uint32_t first_reference;
  uint32_t reference_count;
  /// Of an alias that goes with the function that it is another name of: which definition that is. Else REPO_NO_DEFINITION.
  uint32_t alias_of;
  uint8_t head[32];
  uint8_t body[32];
  /// Of what is said of it as a whole, a hash for each kind of property (`REPO_TYPE` and the following): only to say which is another.
  uint8_t properties[8];
};

enum : uint32_t { REPO_NO_DEFINITION = ~0u };

/// Kinds of properties, as in `changes.rs`.
enum : unsigned {
  REPO_TYPE = 0,
  REPO_LINKAGE,
  REPO_ATTRIBUTES,
  REPO_PLACE,
  REPO_THREAD,
  REPO_CONSTANT,
  REPO_ATTACHED,
  REPO_ROUTINES,
};

struct RepoModule {
  const RepoDefinition *definitions;
  uint64_t definition_count;
  const RepoReference *references;
  uint64_t reference_count;
  /// Triple, data layout, flags, and whether there is debug information.
  const uint8_t *environment;
  uint64_t environment_size;
  /// Why nothing of it can be taken from the repository, or null.
  const char *whole;
  /// 0 for -O0.
  uint32_t level;
  /// Something works by itself that is there because a template was instantiated, whoever asked for that.
  bool has_unasked;
  /// A text may say where a type or a lambda without a name stands.
  bool tells_places;
  /// Assembly may read other files.
  bool reads_files;
};

enum RepoAction : uint8_t {
  /// Compile it.
  REPO_COMPILE = 0,
  /// Compile nothing of it: it goes at once.
  REPO_DROP = 1,
  /// It is there, but those that are compiled may inline it: it goes after that.
  REPO_DROP_LATE = 2,
  /// Compile it, and write it though nobody who is compiled may use it: what comes from the repository does.
  REPO_WRITE = 3,
};

// Rust's.
void repo_digest(const uint8_t *bytes, uint64_t size, uint8_t digest[32]);
/// Whether assembly may read files.
bool repo_assembly_may_read(const uint8_t *text, uint64_t size);
/// What is asked of the plugin: null if nothing is.
void *repo_session(void);
/// Whether nothing is asked but which definitions there are.
bool repo_session_asks_only_names(void *session);
/// The definitions that there are, of which only the names are read.
void repo_session_take_names(void *session, const RepoModule *module);
/// Whether internals are to be promoted, and the name of the unit for that.
bool repo_session_promotes(void *session, const char **unit, uint64_t *unit_size);
/// What is to become of each definition. Returns whether anything is dropped.
bool repo_session_decide(void *session, const RepoModule *module, uint8_t *actions);
/// That a definition that was to be dropped late must be compiled after all.
void repo_session_changed(void *session, uint32_t definition, const char *why);
/// All is as it will be: write the report. `seconds`: of the processor, until it was decided.
void repo_session_finish(void *session, double seconds);
}

namespace repo {

/// The walk's result, with what its pointers lead to.
struct Walk {
  std::vector<RepoDefinition> definitions;
  std::vector<llvm::GlobalValue *> values;
  std::vector<RepoReference> references;
  std::vector<uint8_t> environment;
  const char *whole = nullptr;
  unsigned level = 0;
  bool has_unasked = false;
  bool tells_places = false;
  bool reads_files = false;

  RepoModule module() const;
};

/// An internal that was promoted: under which name it was known.
using Promoted = std::vector<std::pair<llvm::GlobalValue *, std::string>>;

/// Functions whose users see a declaration.
using Sealed = llvm::SmallPtrSet<const llvm::GlobalValue *, 32>;

/// Why nothing of a module can be taken from the repository, as far as that can be told before its definitions are looked at; or null.
const char *whole(const llvm::Module &module);
Promoted promote(llvm::Module &module, unsigned level, llvm::StringRef unit);
Sealed sealed(llvm::Module &module, unsigned level, unsigned size_level);
/// What the definitions of a module are called, and what there is to be known of it beside.
Walk names(llvm::Module &module);
/// `whole`: what the function of this name has said, when the module was as it is in the source.
Walk walk(llvm::Module &module, unsigned level, unsigned size_level, llvm::StringRef unit,
          const Promoted &promoted, const Sealed &sealed, const char *whole);

} // namespace repo
