// The passes: one at the start of the pipeline, which decides; one after the inliner, which lets go of what was kept for it; one at the end,
// which makes internal again what was promoted and is not used any more, so that it goes.
//
// Between the first and the last, what is sealed stands for itself: its users refer to a declaration beside it. So they see the same
// whether it is compiled with them or comes from the repository.

#include "walk.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Analysis/ConstantFolding.h"
#include "llvm/Analysis/OptimizationRemarkEmitter.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/GlobalVariable.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/PassManager.h"
#include "llvm/IR/ValueHandle.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Passes/PassPlugin.h"
#include <ctime>
#include <memory>

using namespace llvm;

namespace {

/// A variable as it was before anything was done to it.
struct Before {
  const Constant *initializer;
  uint64_t align;
  bool constant;
};

/// The linkage of what is written whoever uses it.
GlobalValue::LinkageTypes written(GlobalValue::LinkageTypes linkage) {
  switch (linkage) {
  case GlobalValue::LinkOnceODRLinkage:
    return GlobalValue::WeakODRLinkage;
  case GlobalValue::LinkOnceAnyLinkage:
    return GlobalValue::WeakAnyLinkage;
  default:
    return linkage;
  }
}

/// A function that its users do not see: what they see, and how it was.
struct Seal {
  Function *function;
  /// Null if nobody used it any more, and it was removed.
  WeakVH declaration;
  GlobalValue::LinkageTypes linkage;
  Comdat *comdat;
  AttributeList attributes;
  /// What comes from the repository uses it.
  bool is_written;
};

/// From the first pass to the last.
struct State {
  void *session = nullptr;
  repo::Walk walk;
  std::vector<uint8_t> actions;
  std::vector<Before> before;
  SmallPtrSet<GlobalValue *, 32> promoted;
  std::vector<Seal> seals;
  double seconds = 0;
};

/// Puts a declaration before all who use a function, but itself.
Seal seal(Function &function, bool is_written) {
  Seal seal{&function,           nullptr,   function.getLinkage(), function.getComdat(),
            function.getAttributes(), is_written};
  auto *declaration =
      Function::Create(function.getFunctionType(), GlobalValue::ExternalLinkage,
                       function.getAddressSpace(), function.getName() + ".repo.sealed",
                       function.getParent());
  declaration->setVisibility(function.getVisibility());
  declaration->setUnnamedAddr(function.getUnnamedAddr());
  declaration->setDLLStorageClass(function.getDLLStorageClass());
  declaration->setDSOLocal(function.isDSOLocal());
  declaration->setCallingConv(function.getCallingConv());
  declaration->setAttributes(function.getAttributes());
  function.replaceAllUsesWith(declaration);
  declaration->replaceUsesWithIf(&function, [&](Use &use) {
    auto *instruction = dyn_cast<Instruction>(use.getUser());
    return instruction && instruction->getFunction() == &function;
  });
  // Without users it must not go, for now.
  function.setComdat(nullptr);
  function.setLinkage(GlobalValue::ExternalLinkage);
  seal.declaration = declaration;
  return seal;
}

/// Makes it what it was. What was found out of it stays with it: its users would see that in its attributes.
void unseal(const Seal &seal) {
  if (auto *declaration = cast_or_null<Function>(seal.declaration)) {
    declaration->replaceAllUsesWith(seal.function);
    declaration->eraseFromParent();
  }
  seal.function->setLinkage(seal.is_written ? written(seal.linkage) : seal.linkage);
  seal.function->setComdat(seal.comdat);
  seal.function->setAttributes(seal.attributes);
}

/// The first value is as the optimizer writes constants, which it does to all of them: in another form it is none other.
Before state_of(const GlobalVariable &variable) {
  const DataLayout &layout = variable.getParent()->getDataLayout();
  return {variable.hasInitializer() ? ConstantFoldConstant(variable.getInitializer(), layout)
                                    : nullptr,
          variable.getAlign() ? variable.getAlign()->value() : 0, variable.isConstant()};
}

/// Makes a declaration of a definition.
void drop(GlobalValue &value) {
  if (auto *function = dyn_cast<Function>(&value)) {
    function->deleteBody();
    function->setComdat(nullptr);
  } else if (auto *variable = dyn_cast<GlobalVariable>(&value)) {
    variable->setInitializer(nullptr);
    variable->setLinkage(GlobalValue::ExternalLinkage);
    variable->setComdat(nullptr);
    variable->clearMetadata();
  } else if (auto *alias = dyn_cast<GlobalAlias>(&value)) {
    // There are no declarations of aliases.
    Module &module = *alias->getParent();
    GlobalValue *plain;
    if (auto *type = dyn_cast<FunctionType>(alias->getValueType()))
      plain = Function::Create(type, GlobalValue::ExternalLinkage, alias->getAddressSpace(), "",
                               &module);
    else
      plain = new GlobalVariable(module, alias->getValueType(), false,
                                 GlobalValue::ExternalLinkage, nullptr, "");
    plain->setVisibility(alias->getVisibility());
    plain->setDSOLocal(alias->isDSOLocal());
    alias->replaceAllUsesWith(plain);
    plain->takeName(alias);
  }
}

/// What is written if of `others` is what somebody uses: as the removal of what is dead has it, which knows only what is internal.
SmallPtrSet<const GlobalValue *, 32> live_without(const Module &module,
                                                  const SmallPtrSetImpl<GlobalValue *> &others) {
  DenseMap<const Comdat *, SmallVector<const GlobalValue *, 2>> groups;
  SmallPtrSet<const GlobalValue *, 32> live;
  SmallVector<const GlobalValue *, 32> next;
  auto reach = [&](const GlobalValue *value) {
    if (live.insert(value).second)
      next.push_back(value);
  };
  for (const GlobalValue &value : module.global_values()) {
    if (auto *object = dyn_cast<GlobalObject>(&value))
      if (const Comdat *comdat = object->getComdat())
        groups[comdat].push_back(&value);
    bool is_other = others.contains(const_cast<GlobalValue *>(&value));
    if (!value.isDeclaration() && !value.isDiscardableIfUnused() && !is_other)
      reach(&value);
  }
  SmallPtrSet<const Constant *, 32> seen;
  SmallVector<const Constant *, 32> constants;
  auto uses = [&](const User &user) {
    for (const Use &use : user.operands())
      if (auto *constant = dyn_cast<Constant>(use.get()))
        constants.push_back(constant);
    while (!constants.empty()) {
      const Constant *constant = constants.pop_back_val();
      if (auto *value = dyn_cast<GlobalValue>(constant)) {
        reach(value);
      } else if (seen.insert(constant).second) {
        for (const Use &use : constant->operands())
          if (auto *inner = dyn_cast<Constant>(use.get()))
            constants.push_back(inner);
      }
    }
  };
  while (!next.empty()) {
    const GlobalValue *value = next.pop_back_val();
    uses(*value);
    if (auto *object = dyn_cast<GlobalObject>(value))
      if (const Comdat *comdat = object->getComdat())
        for (const GlobalValue *member : groups[comdat])
          reach(member);
    if (auto *function = dyn_cast<Function>(value))
      for (const BasicBlock &block : *function)
        for (const Instruction &instruction : block)
          uses(instruction);
  }
  return live;
}

struct StartPass : PassInfoMixin<StartPass> {
  std::shared_ptr<State> state;
  unsigned speed, size;
  StartPass(std::shared_ptr<State> state, OptimizationLevel level)
      : state(std::move(state)), speed(level.getSpeedupLevel()), size(level.getSizeLevel()) {}
  static bool isRequired() { return true; }

  PreservedAnalyses run(Module &module, ModuleAnalysisManager &) {
    state->session = repo_session();
    if (!state->session)
      return PreservedAnalyses::all();
    std::clock_t start = std::clock();
    if (repo_session_asks_only_names(state->session)) {
      repo::Walk names = repo::names(module);
      RepoModule view = names.module();
      repo_session_take_names(state->session, &view);
      repo_session_finish(state->session, double(std::clock() - start) / CLOCKS_PER_SEC);
      // The other passes have nothing to do then.
      state->session = nullptr;
      return PreservedAnalyses::all();
    }
    const char *unit = nullptr;
    uint64_t unit_size = 0;
    bool promotes = repo_session_promotes(state->session, &unit, &unit_size);
    StringRef unit_name(unit, unit_size);
    repo::Promoted promoted;
    // Nothing is pruned of what has these, and then nothing need be renamed.
    const char *whole = repo::whole(module);
    if (promotes && !whole)
      promoted = repo::promote(module, speed, unit_name);
    for (auto &entry : promoted)
      state->promoted.insert(entry.first);
    repo::Sealed sealed;
    if (promotes && !whole)
      sealed = repo::sealed(module, speed, size);
    state->walk = repo::walk(module, speed, size, unit_name, promoted, sealed, whole);
    size_t count = state->walk.values.size();
    state->actions.assign(count, REPO_COMPILE);
    RepoModule view = state->walk.module();
    bool any = repo_session_decide(state->session, &view, state->actions.data());
    // Of the processor: what else the machine does is nothing to us.
    state->seconds = double(std::clock() - start) / CLOCKS_PER_SEC;
    for (GlobalValue *value : state->walk.values) {
      auto *variable = dyn_cast<GlobalVariable>(value);
      state->before.push_back(variable ? state_of(*variable) : Before{});
    }
    for (size_t at = 0; at < count; ++at) {
      GlobalValue *value = state->walk.values[at];
      uint8_t action = state->actions[at];
      if (sealed.contains(value) && (action == REPO_COMPILE || action == REPO_WRITE))
        state->seals.push_back(seal(*cast<Function>(value), action == REPO_WRITE));
    }
    if (!any)
      return promoted.empty() && sealed.empty() ? PreservedAnalyses::all()
                                                : PreservedAnalyses::none();
    // First all bodies, so that nothing is used by what goes.
    for (size_t at = 0; at < count; ++at)
      if (state->actions[at] == REPO_DROP)
        drop(*state->walk.values[at]);
    for (size_t at = 0; at < count; ++at) {
      GlobalValue *value = state->walk.values[at];
      if (state->actions[at] != REPO_DROP)
        continue;
      value->removeDeadConstantUsers();
      if (value->use_empty()) {
        state->promoted.erase(value);
        value->eraseFromParent();
        state->walk.values[at] = nullptr;
      }
    }
    // Who links the object as it is, without what the repository has of it, must fail.
    module.appendModuleInlineAsm(".pushsection .repo.partial,\"\",@progbits\n"
                                 ".quad this_object_is_not_whole__repo_cc_was_interrupted\n"
                                 ".popsection");
    return PreservedAnalyses::none();
  }
};

struct LatePass : PassInfoMixin<LatePass> {
  std::shared_ptr<State> state;
  explicit LatePass(std::shared_ptr<State> state) : state(std::move(state)) {}
  static bool isRequired() { return true; }

  PreservedAnalyses run(Module &module, ModuleAnalysisManager &analyses) {
    if (!state->session || !is_contained(state->actions, REPO_DROP_LATE))
      return PreservedAnalyses::all();
    // The optimizer may have removed some, so they are looked for by name.
    SmallPtrSet<GlobalValue *, 32> there;
    for (GlobalValue &value : module.global_values())
      there.insert(&value);
    auto &functions =
        analyses.getResult<FunctionAnalysisManagerModuleProxy>(module).getManager();
    SmallVector<GlobalValue *, 32> late;
    for (size_t at = 0; at < state->actions.size(); ++at) {
      if (state->actions[at] != REPO_DROP_LATE)
        continue;
      GlobalValue *value = state->walk.values[at];
      if (!there.contains(value) || value->isDeclaration())
        continue;
      if (auto *variable = dyn_cast<GlobalVariable>(value)) {
        Before now = state_of(*variable), &before = state->before[at];
        if (now.initializer != before.initializer || now.constant != before.constant ||
            now.align != before.align) {
          repo_session_changed(state->session, at, "what is compiled has changed it");
          // What comes from the repository may use it, also where nothing does that is compiled.
          state->promoted.erase(variable);
          variable->setLinkage(written(variable->getLinkage()));
          continue;
        }
      }
      auto *variable = dyn_cast<GlobalVariable>(value);
      if (variable && variable->isConstant() && !variable->isInterposable()) {
        // Its loads may be folded until code is selected. (Of what another file may define otherwise none is.)
        variable->setComdat(nullptr);
        variable->setLinkage(GlobalValue::AvailableExternallyLinkage);
        continue;
      }
      if (auto *function = dyn_cast<Function>(value))
        functions.clear(*function, function->getName());
      if (isa<GlobalAlias>(value)) {
        drop(*value);
        value->eraseFromParent();
        state->walk.values[at] = nullptr;
        continue;
      }
      late.push_back(value);
    }
    // Aliases first: they are of definitions only.
    for (GlobalValue *value : late)
      drop(*value);
    // The others are as they were: what was found out of them, with those that went in sight, stays true.
    return PreservedAnalyses::all();
  }
};

struct EndPass : PassInfoMixin<EndPass> {
  std::shared_ptr<State> state;
  explicit EndPass(std::shared_ptr<State> state) : state(std::move(state)) {}
  static bool isRequired() { return true; }

  PreservedAnalyses run(Module &module, ModuleAnalysisManager &) {
    if (!state->session)
      return PreservedAnalyses::all();
    for (const Seal &seal : state->seals) {
      unseal(seal);
      if (seal.is_written)
        state->promoted.erase(seal.function);
    }
    // Without optimisation all is written; what nobody uses here, what comes from the repository does.
    if (state->walk.level && !state->promoted.empty()) {
      SmallPtrSet<const GlobalValue *, 32> live = live_without(module, state->promoted);
      for (GlobalValue &value : module.global_values()) {
        if (!state->promoted.contains(&value) || live.contains(&value) || value.isDeclaration())
          continue;
        // Who uses it is not used either: it goes with them, in what follows.
        value.setVisibility(GlobalValue::DefaultVisibility);
        value.setLinkage(GlobalValue::InternalLinkage);
      }
    }
    // What follows would have equal constants be one: then a text is known by the name of a constant that is its equal only now. It leaves alone
    // what something is said of.
    unsigned apart = module.getMDKindID("repo.apart");
    for (GlobalVariable &variable : module.globals())
      if (variable.isConstant() && !variable.isDeclaration())
        variable.setMetadata(apart, MDNode::get(module.getContext(), {}));
    repo_session_finish(state->session, state->seconds);
    state->session = nullptr;
    return PreservedAnalyses::none();
  }
};

void add_passes(PassBuilder &builder) {
  auto state = std::make_shared<State>();
  builder.registerPipelineStartEPCallback([state](ModulePassManager &manager,
                                                  OptimizationLevel level) {
    manager.addPass(StartPass(state, level));
  });
  builder.registerOptimizerEarlyEPCallback(
      [state](ModulePassManager &manager, OptimizationLevel) { manager.addPass(LatePass(state)); });
  builder.registerOptimizerLastEPCallback(
      [state](ModulePassManager &manager, OptimizationLevel) { manager.addPass(EndPass(state)); });
  // For `opt`: the first pass by itself, at any level.
  builder.registerPipelineParsingCallback(
      [state](StringRef name, ModulePassManager &manager, ArrayRef<PassBuilder::PipelineElement>) {
        OptimizationLevel level = OptimizationLevel::O0;
        if (name == "repo-digest")
          level = OptimizationLevel::O2;
        else if (name != "repo-digest-O0")
          return false;
        manager.addPass(StartPass(state, level));
        manager.addPass(EndPass(state));
        return true;
      });
}

} // namespace

extern "C" PassPluginLibraryInfo repo_plugin_info() {
  return {LLVM_PLUGIN_API_VERSION, "repo", "1", add_passes};
}
