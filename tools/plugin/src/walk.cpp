// The walk over the IR: for each definition all that code generation sees of it, as bytes for a digest, and what it refers to.
//
// Complete rather than clever: whatever is not known by name here is written down by its class, its type and its operands. What is
// left out is left out on purpose: names of locals, line positions, the order of definitions, and use lists.

#include "walk.h"
#include "assembly.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/Attributes.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/DebugProgramInstruction.h"
#include "llvm/IR/DerivedTypes.h"
#include "llvm/IR/GlobalAlias.h"
#include "llvm/IR/GlobalIFunc.h"
#include "llvm/IR/GlobalVariable.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Metadata.h"
#include "llvm/IR/Operator.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/TargetParser/Triple.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"
#include <algorithm>
#include <array>
#include <cstring>
#include <map>

using namespace llvm;

namespace repo {
namespace {

/// What stands before each part, so that no two sequences of parts are the same bytes.
enum Tag : uint8_t {
  TagLocal = 1,
  TagBlock,
  TagInteger,
  TagFloat,
  TagSimpleConstant,
  TagData,
  TagAggregate,
  TagExpression,
  TagBlockAddress,
  TagEquivalent,
  TagNoCfi,
  TagPointerAuth,
  TagReference,
  TagReferenceAgain,
  TagSelf,
  TagAssembly,
  TagMetadata,
  TagNothing,
  TagType,
  TagTypeAgain,
  TagAttributes,
  TagAttributesAgain,
  TagNode,
  TagNodeAgain,
  TagPureNode,
  TagString,
  TagLocation,
  TagConstantMetadata,
  TagLocalMetadata,
  TagArgumentList,
  TagInstruction,
  TagDebugRecord,
  TagOther,
};

using Short = std::array<uint8_t, 16>;

class Stream {
public:
  std::vector<uint8_t> bytes;

  void u8(uint8_t value) { bytes.push_back(value); }
  void u32(uint32_t value) { raw(&value, sizeof value); }
  void u64(uint64_t value) { raw(&value, sizeof value); }
  void raw(const void *data, size_t size) {
    auto *begin = static_cast<const uint8_t *>(data);
    bytes.insert(bytes.end(), begin, begin + size);
  }
  void text(StringRef value) {
    u64(value.size());
    raw(value.data(), value.size());
  }
  void integer(const APInt &value) {
    u32(value.getBitWidth());
    raw(value.getRawData(), value.getNumWords() * sizeof(uint64_t));
  }
  void digest(uint8_t out[32]) const { repo_digest(bytes.data(), bytes.size(), out); }
  Short digest16() const {
    uint8_t whole[32];
    digest(whole);
    Short result;
    std::memcpy(result.data(), whole, result.size());
    return result;
  }
};

/// What is the same wherever it occurs: its digest, and its number in the definition at hand.
struct Known {
  Short digest{};
  uint32_t epoch = 0;
  uint32_t number = 0;
};

bool is_content(const GlobalValue &value) {
  auto *variable = dyn_cast<GlobalVariable>(&value);
  return variable && variable->hasPrivateLinkage() && variable->isConstant() &&
         variable->hasGlobalUnnamedAddr() && variable->hasInitializer() &&
         !variable->isThreadLocal();
}

bool is_llvm(const GlobalValue &value) { return value.getName().starts_with("llvm."); }

/// The function whose other name this is, if it goes where that goes: both can be named by others, and are written whoever uses them
/// (as constructors of whole objects are, which are those of bases).
const Function *function_of(const GlobalValue &value) {
  auto *alias = dyn_cast<GlobalAlias>(&value);
  auto *function = alias ? dyn_cast<const Function>(alias->getAliasee()) : nullptr;
  if (!function || function->isDeclaration() || function->hasComdat() ||
      alias->getValueType() != function->getValueType() ||
      alias->getAddressSpace() != function->getAddressSpace())
    return nullptr;
  auto is_written = [](const GlobalValue &name) {
    return name.hasExternalLinkage() || name.hasWeakAnyLinkage() || name.hasWeakODRLinkage();
  };
  return is_written(*alias) && is_written(*function) ? function : nullptr;
}

/// Calls `visit` with each instruction's function, or global value, that uses `value`, through constants.
void for_users(const Value &value, SmallPtrSetImpl<const Constant *> &seen,
               function_ref<void(const Use &, const GlobalValue &, bool direct)> visit) {
  for (const Use &use : value.uses()) {
    const User *user = use.getUser();
    if (auto *instruction = dyn_cast<Instruction>(user)) {
      if (const Function *function = instruction->getFunction())
        visit(use, *function, isa<GlobalValue>(value));
    } else if (auto *global = dyn_cast<GlobalValue>(user)) {
      visit(use, *global, false);
    } else if (auto *constant = dyn_cast<Constant>(user)) {
      if (seen.insert(constant).second)
        for_users(*constant, seen, visit);
    }
  }
}

class Walker {
  Module &module;
  const unsigned level;
  StringRef unit;
  const Sealed &sealed;
  DenseMap<const Type *, Known> types;
  DenseMap<const void *, Known> attribute_lists;
  DenseMap<AttributeSet, Short> attribute_sets;
  DenseMap<const MDNode *, std::pair<int, Short>> pure_nodes;
  DenseMap<const GlobalValue *, Short> declarations;
  SmallVector<StringRef, 8> scopes;
  SmallVector<StringRef, 32> kinds;

  // Of the definition at hand:
  uint32_t epoch = 0;
  Stream out;
  const GlobalValue *self = nullptr;
  DenseMap<const Value *, uint32_t> locals;
  DenseMap<const GlobalValue *, uint32_t> referenced;
  DenseMap<const Metadata *, uint32_t> nodes;
  std::vector<std::pair<const GlobalValue *, uint32_t>> found;

public:
  DenseMap<const GlobalValue *, uint32_t> index;
  /// Who knows labels of another one's code, and whose.
  std::vector<std::pair<const GlobalValue *, const GlobalValue *>> labels;

  Walker(Module &module, unsigned level, StringRef unit, const Sealed &sealed)
      : module(module), level(level), unit(unit), sealed(sealed), srcloc(module.getMDKindID("srcloc")) {
    module.getContext().getSyncScopeNames(scopes);
    module.getContext().getMDKindNames(kinds);
  }

  ArrayRef<std::pair<const GlobalValue *, uint32_t>> references() const { return found; }

  /// What surrounds all definitions.
  std::vector<uint8_t> environment(unsigned size_level) {
    begin(nullptr);
    out.text(module.getTargetTriple());
    out.text(module.getDataLayoutStr());
    out.u32(level);
    out.u32(size_level);
    out.u8(module.getNamedMetadata("llvm.dbg.cu") != nullptr);
    if (NamedMDNode *flags = module.getModuleFlagsMetadata())
      for (const MDNode *flag : flags->operands())
        metadata(flag);
    // What else there is by name, but for the compiler's (it is in the session's environment) and debug information.
    for (const NamedMDNode &named : module.named_metadata()) {
      StringRef name = named.getName();
      if (name == "llvm.module.flags" || name == "llvm.ident" || name.starts_with("llvm.dbg.") ||
          name == "llvm.commandline")
        continue;
      out.text(name);
      for (const MDNode *node : named.operands())
        metadata(node);
    }
    return std::move(out.bytes);
  }

  void begin(const GlobalValue *definition) {
    ++epoch;
    out.bytes.clear();
    self = definition;
    locals.clear();
    referenced.clear();
    nodes.clear();
    found.clear();
  }

  /// What is said of a definition as a whole.
  void head(const GlobalValue &value, uint8_t digest[32], uint8_t properties[8]) {
    out.u8(value.getValueID());
    name_of(value);
    hashed = out.bytes.size();
    property_hashes = properties;
    facts(value);
    // Where it goes: its users need not know.
    out.text(value.hasPartition() ? value.getPartition() : StringRef());
    is_property(REPO_PLACE);
    if (value.hasSanitizerMetadata()) {
      auto sanitizers = value.getSanitizerMetadata();
      out.u8(1 | sanitizers.NoAddress << 1 | sanitizers.NoHWAddress << 2 | sanitizers.Memtag << 3 |
             sanitizers.IsDynInit << 4);
    } else {
      out.u8(0);
    }
    is_property(REPO_ATTRIBUTES);
    if (auto *object = dyn_cast<GlobalObject>(&value)) {
      comdat(object->getComdat(), value);
      is_property(REPO_LINKAGE);
      attachments(*object);
      is_property(REPO_ATTACHED);
    }
    if (auto *function = dyn_cast<Function>(&value)) {
      out.text(function->hasGC() ? function->getGC() : std::string());
      optional(function->hasPersonalityFn() ? function->getPersonalityFn() : nullptr);
      optional(function->hasPrefixData() ? function->getPrefixData() : nullptr);
      optional(function->hasPrologueData() ? function->getPrologueData() : nullptr);
      is_property(REPO_ROUTINES);
    }
    property_hashes = nullptr;
    out.digest(digest);
    out.bytes.clear();
  }

  void body(const GlobalValue &value, uint8_t digest[32]) {
    if (auto *function = dyn_cast<Function>(&value))
      body(*function);
    else if (auto *variable = dyn_cast<GlobalVariable>(&value))
      optional(variable->hasInitializer() ? variable->getInitializer() : nullptr);
    else if (auto *alias = dyn_cast<GlobalAlias>(&value))
      operand(alias->getAliasee());
    else if (auto *ifunc = dyn_cast<GlobalIFunc>(&value))
      operand(ifunc->getResolver());
    out.digest(digest);
    out.bytes.clear();
  }

private:
  /// Where the properties of the definition at hand go, if somebody wants them; and up to where what was written is in them.
  uint8_t *property_hashes = nullptr;
  size_t hashed = 0;

  /// What was written since the last property is of this kind.
  void is_property(unsigned kind) {
    if (!property_hashes || is_apart)
      return;
    // FNV-1a: it is only to name what the digests have told apart.
    uint32_t hash = 2166136261u ^ property_hashes[kind];
    for (size_t at = hashed; at < out.bytes.size(); ++at)
      hash = (hash ^ out.bytes[at]) * 16777619u;
    property_hashes[kind] = hash ^ hash >> 8 ^ hash >> 16 ^ hash >> 24;
    hashed = out.bytes.size();
  }

  void name_of(const GlobalValue &value) {
    if (is_content(value)) {
      out.u8(0);
      return;
    }
    out.u8(1);
    out.text(value.getName());
    if (value.hasLocalLinkage())
      out.text(unit);
  }

  void comdat(const Comdat *comdat, const GlobalValue &value) {
    out.u8(comdat != nullptr);
    if (!comdat)
      return;
    out.u8(comdat->getSelectionKind());
    if (comdat->getName() == value.getName())
      out.u8(1);
    else
      out.text(comdat->getName());
  }

  /// What a declaration tells, or a definition tells to who does not look into it.
  void facts(const GlobalValue &value) {
    type(value.getValueType());
    out.u32(value.getAddressSpace());
    is_property(REPO_TYPE);
    out.u8(value.isDeclarationForLinker() && !value.hasAvailableExternallyLinkage());
    out.u8(value.getLinkage());
    out.u8(value.getVisibility());
    out.u8(value.getDLLStorageClass());
    out.u8(value.isDSOLocal());
    is_property(REPO_LINKAGE);
    out.u8(value.getThreadLocalMode());
    is_property(REPO_THREAD);
    out.u8(static_cast<uint8_t>(value.getUnnamedAddr()));
    is_property(REPO_LINKAGE);
    if (auto *object = dyn_cast<GlobalObject>(&value)) {
      out.text(object->getSection());
      out.u64(object->getAlign() ? object->getAlign()->value() : 0);
      is_property(REPO_PLACE);
    }
    if (auto *function = dyn_cast<Function>(&value)) {
      out.u32(function->getCallingConv());
      attributes(function->getAttributes());
      is_property(REPO_ATTRIBUTES);
    } else if (auto *variable = dyn_cast<GlobalVariable>(&value)) {
      out.u8(variable->isConstant());
      out.u8(variable->isExternallyInitialized());
      is_property(REPO_CONSTANT);
      out.u32(variable->getCodeModelRaw());
      attribute_set(variable->getAttributes());
      is_property(REPO_ATTRIBUTES);
    }
  }

  void type(const Type *type) {
    if (is_apart) {
      Short digest = type_digest(type);
      out.raw(digest.data(), digest.size());
      return;
    }
    Known &known = types[type];
    if (known.epoch == epoch && epoch) {
      out.u8(TagTypeAgain);
      out.u32(known.number);
      return;
    }
    known.digest = type_digest(type);
    known.number = type_number(), known.epoch = epoch;
    out.u8(TagType);
    out.raw(known.digest.data(), known.digest.size());
  }

  uint32_t numbers = 0;
  uint32_t number_epoch = 0;
  uint32_t type_number() {
    if (number_epoch != epoch)
      numbers = 0, number_epoch = epoch;
    return numbers++;
  }

  DenseMap<const Type *, Short> type_digests;
  Short type_digest(const Type *type) {
    auto at = type_digests.find(type);
    if (at != type_digests.end())
      return at->second;
    Stream bytes;
    bytes.u8(type->getTypeID());
    switch (type->getTypeID()) {
    case Type::IntegerTyID:
      bytes.u32(type->getIntegerBitWidth());
      break;
    case Type::PointerTyID:
      bytes.u32(type->getPointerAddressSpace());
      break;
    case Type::ArrayTyID:
      bytes.u64(type->getArrayNumElements());
      break;
    case Type::FixedVectorTyID:
    case Type::ScalableVectorTyID:
      bytes.u32(cast<VectorType>(type)->getElementCount().getKnownMinValue());
      break;
    case Type::FunctionTyID:
      bytes.u8(type->isFunctionVarArg());
      break;
    case Type::StructTyID: {
      auto *structure = cast<StructType>(type);
      bytes.u8(structure->isPacked() | structure->isOpaque() << 1);
      if (structure->isOpaque())
        bytes.text(structure->hasName() ? structure->getName() : StringRef());
      break;
    }
    case Type::TargetExtTyID: {
      auto *target = cast<TargetExtType>(type);
      bytes.text(target->getName());
      for (unsigned parameter : target->int_params())
        bytes.u32(parameter);
      break;
    }
    default:
      break;
    }
    bytes.u32(type->getNumContainedTypes());
    for (const Type *inner : type->subtypes()) {
      Short digest = type_digest(inner);
      bytes.raw(digest.data(), digest.size());
    }
    Short digest = bytes.digest16();
    type_digests[type] = digest;
    return digest;
  }

  Short attribute_set_digest(AttributeSet set) {
    auto at = attribute_sets.find(set);
    if (at != attribute_sets.end())
      return at->second;
    Stream bytes;
    for (Attribute attribute : set) {
      if (attribute.isTypeAttribute()) {
        // By name it would depend on what a struct is called.
        bytes.text(Attribute::getNameFromAttrKind(attribute.getKindAsEnum()));
        if (Type *of = attribute.getValueAsType()) {
          Short digest = type_digest(of);
          bytes.raw(digest.data(), digest.size());
        }
      } else {
        bytes.text(attribute.getAsString());
      }
    }
    Short digest = bytes.digest16();
    attribute_sets[set] = digest;
    return digest;
  }

  void attribute_set(AttributeSet set) {
    Short digest = attribute_set_digest(set);
    out.raw(digest.data(), digest.size());
  }

  void attributes(AttributeList list) {
    Known &known = attribute_lists[list.getRawPointer()];
    if (!is_apart && known.epoch == epoch) {
      out.u8(TagAttributesAgain);
      out.u32(known.number);
      return;
    }
    if (!known.epoch) {
      Stream bytes;
      for (unsigned at : list.indexes()) {
        AttributeSet set = list.getAttributes(at);
        if (!set.hasAttributes())
          continue;
        bytes.u32(at);
        Short digest = attribute_set_digest(set);
        bytes.raw(digest.data(), digest.size());
      }
      known.digest = bytes.digest16();
      known.epoch = ~0u;
    }
    if (!is_apart) {
      known.number = type_number(), known.epoch = epoch;
      out.u8(TagAttributes);
    }
    out.raw(known.digest.data(), known.digest.size());
  }

  /// Whether, and how, code depends on what `value` is, beyond what a declaration tells.
  uint32_t dependence(const GlobalValue &value) {
    if (value.isDeclaration())
      return 0;
    if (is_content(value))
      return REPO_FOLLOW;
    // What has no name that others could know goes where its users go.
    uint32_t keep = value.hasLocalLinkage() ? REPO_KEEP : REPO_NEED;
    if (!level && function_of(value))
      return keep;
    if (isa<GlobalAlias>(value) || isa<GlobalIFunc>(value))
      return level || !isa<FunctionType>(value.getValueType()) ? REPO_FOLLOW : REPO_HOLD | keep;
    if (auto *variable = dyn_cast<GlobalVariable>(&value)) {
      // Without optimisation, too, instruction selection folds what is read of constants.
      if (variable->isConstant())
        return REPO_FOLLOW;
      return level ? REPO_HOLD | keep : keep;
    }
    if (sealed.contains(&value))
      return keep;
    // One that could not be promoted is a part of whoever uses it.
    if (level || value.hasLocalLinkage() ||
        cast<Function>(value).hasFnAttribute(Attribute::AlwaysInline))
      return REPO_FOLLOW;
    return keep;
  }

  void reference(const GlobalValue &value, uint32_t flags = 0) {
    if (&value == self) {
      out.u8(TagSelf);
      return;
    }
    auto inserted = referenced.try_emplace(&value, found.size());
    uint32_t number = inserted.first->second;
    if (!inserted.second) {
      out.u8(TagReferenceAgain);
      out.u32(number);
      found[number].second |= flags;
      return;
    }
    found.push_back({&value, flags | dependence(value)});
    out.u8(TagReference);
    name_of(value);
    auto at = declarations.find(&value);
    if (at == declarations.end()) {
      // Digests of declarations are made apart, for they occur often.
      std::vector<uint8_t> outer;
      outer.swap(out.bytes);
      is_apart = true;
      facts(value);
      Short digest = out.digest16();
      is_apart = false;
      out.bytes.swap(outer);
      at = declarations.try_emplace(&value, digest).first;
    }
    out.raw(at->second.data(), at->second.size());
  }
  /// What is written is a digest of its own, which numbers nothing.
  bool is_apart = false;

  void optional(const Constant *constant) {
    if (constant)
      operand(constant);
    else
      out.u8(TagNothing);
  }

  void operand(const Value *value) {
    if (!value) {
      out.u8(TagNothing);
      return;
    }
    if (auto *constant = dyn_cast<Constant>(value)) {
      this->constant(*constant);
      return;
    }
    if (isa<Argument>(value) || isa<Instruction>(value) || isa<BasicBlock>(value)) {
      out.u8(TagLocal);
      auto at = locals.find(value);
      out.u32(at == locals.end() ? ~0u : at->second);
      return;
    }
    if (auto *assembly = dyn_cast<InlineAsm>(value)) {
      out.u8(TagAssembly);
      type(assembly->getFunctionType());
      out.text(assembly->getAsmString());
      out.text(assembly->getConstraintString());
      out.u8(assembly->hasSideEffects() | assembly->isAlignStack() << 1 |
             assembly->canThrow() << 2);
      out.u8(assembly->getDialect());
      return;
    }
    if (auto *wrapped = dyn_cast<MetadataAsValue>(value)) {
      out.u8(TagMetadata);
      metadata(wrapped->getMetadata());
      return;
    }
    out.u8(TagOther);
    out.u32(value->getValueID());
    type(value->getType());
  }

  void constant(const Constant &constant) {
    if (auto *global = dyn_cast<GlobalValue>(&constant)) {
      reference(*global);
      return;
    }
    if (auto *integer = dyn_cast<ConstantInt>(&constant)) {
      out.u8(TagInteger);
      type(integer->getType());
      out.integer(integer->getValue());
      return;
    }
    if (auto *number = dyn_cast<ConstantFP>(&constant)) {
      out.u8(TagFloat);
      type(number->getType());
      out.integer(number->getValueAPF().bitcastToAPInt());
      return;
    }
    if (auto *data = dyn_cast<ConstantDataSequential>(&constant)) {
      out.u8(TagData);
      type(data->getType());
      out.text(data->getRawDataValues());
      return;
    }
    if (auto *block = dyn_cast<BlockAddress>(&constant)) {
      out.u8(TagBlockAddress);
      if (block->getFunction() != self)
        labels.push_back({self, block->getFunction()});
      reference(*block->getFunction(), REPO_FOLLOW);
      uint32_t number = 0;
      for (const BasicBlock &other : *block->getFunction()) {
        if (&other == block->getBasicBlock())
          break;
        ++number;
      }
      out.u32(number);
      return;
    }
    if (auto *equivalent = dyn_cast<DSOLocalEquivalent>(&constant)) {
      out.u8(TagEquivalent);
      reference(*equivalent->getGlobalValue());
      return;
    }
    if (auto *plain = dyn_cast<NoCFIValue>(&constant)) {
      out.u8(TagNoCfi);
      reference(*plain->getGlobalValue());
      return;
    }
    if (auto *expression = dyn_cast<ConstantExpr>(&constant)) {
      out.u8(TagExpression);
      type(expression->getType());
      out.u32(expression->getOpcode());
      out.u8(expression->getRawSubclassOptionalData());
      if (auto *address = dyn_cast<GEPOperator>(expression)) {
        type(address->getSourceElementType());
        auto range = address->getInRange();
        out.u8(range.has_value());
        if (range) {
          out.integer(range->getLower());
          out.integer(range->getUpper());
        }
      }
      if (expression->getOpcode() == Instruction::ShuffleVector)
        for (int element : expression->getShuffleMask())
          out.u32(element);
    } else {
      out.u8(constant.getNumOperands() ? TagAggregate : TagSimpleConstant);
      out.u32(constant.getValueID());
      type(constant.getType());
    }
    out.u32(constant.getNumOperands());
    for (const Use &operand : constant.operands())
      this->operand(operand.get());
  }

  const unsigned srcloc;
  bool is_passed_over(unsigned kind) const {
    return kind == LLVMContext::MD_dbg || kind == srcloc ||
           kind == LLVMContext::MD_DIAssignID;
  }

  void attachments(ArrayRef<std::pair<unsigned, MDNode *>> all) {
    for (auto &[kind, node] : all) {
      if (is_passed_over(kind))
        continue;
      // By name: numbers depend on what was there first.
      out.text(kinds.size() > kind ? kinds[kind] : StringRef("?"));
      metadata(node);
    }
    out.u8(TagNothing);
  }

  void attachments(const GlobalObject &object) {
    SmallVector<std::pair<unsigned, MDNode *>, 4> all;
    object.getAllMetadata(all);
    attachments(all);
  }

  /// The digest of a node below which there is nothing distinct, nothing local and no circle.
  bool pure(const MDNode *node, Short &digest) {
    auto inserted = pure_nodes.try_emplace(node, std::pair<int, Short>{0, Short{}});
    if (!inserted.second) {
      digest = inserted.first->second.second;
      return inserted.first->second.first == 1;
    }
    bool is_pure = node->isUniqued() && isa<MDTuple>(node);
    Stream bytes;
    if (is_pure) {
      bytes.u32(node->getNumOperands());
      for (const MDOperand &operand : node->operands()) {
        const Metadata *inner = operand.get();
        if (!inner) {
          bytes.u8(TagNothing);
        } else if (auto *text = dyn_cast<MDString>(inner)) {
          bytes.u8(TagString);
          bytes.text(text->getString());
        } else if (auto *constant = dyn_cast<ConstantAsMetadata>(inner)) {
          auto *integer = dyn_cast<ConstantInt>(constant->getValue());
          if (!integer) {
            is_pure = false;
            break;
          }
          bytes.u8(TagInteger);
          bytes.integer(integer->getValue());
        } else if (auto *below = dyn_cast<MDNode>(inner)) {
          Short inner_digest;
          if (!pure(below, inner_digest)) {
            is_pure = false;
            break;
          }
          bytes.u8(TagPureNode);
          bytes.raw(inner_digest.data(), inner_digest.size());
        } else {
          is_pure = false;
          break;
        }
      }
    }
    auto &entry = pure_nodes[node];
    if (!is_pure) {
      entry.first = 2;
      return false;
    }
    entry = {1, bytes.digest16()};
    digest = entry.second;
    return true;
  }

  void metadata(const Metadata *data) {
    if (!data) {
      out.u8(TagNothing);
      return;
    }
    if (isa<DILocation>(data)) {
      out.u8(TagLocation);
      return;
    }
    if (auto *text = dyn_cast<MDString>(data)) {
      out.u8(TagString);
      out.text(text->getString());
      return;
    }
    if (auto *constant = dyn_cast<ConstantAsMetadata>(data)) {
      out.u8(TagConstantMetadata);
      operand(constant->getValue());
      return;
    }
    if (auto *local = dyn_cast<LocalAsMetadata>(data)) {
      out.u8(TagLocalMetadata);
      operand(local->getValue());
      return;
    }
    if (auto *list = dyn_cast<DIArgList>(data)) {
      out.u8(TagArgumentList);
      out.u32(list->getArgs().size());
      for (const ValueAsMetadata *argument : list->getArgs())
        operand(argument->getValue());
      return;
    }
    auto *node = dyn_cast<MDNode>(data);
    if (!node) {
      out.u8(TagOther);
      out.u32(data->getMetadataID());
      return;
    }
    Short digest;
    if (pure(node, digest)) {
      out.u8(TagPureNode);
      out.raw(digest.data(), digest.size());
      return;
    }
    auto inserted = nodes.try_emplace(node, nodes.size());
    if (!inserted.second) {
      out.u8(TagNodeAgain);
      out.u32(inserted.first->second);
      return;
    }
    out.u8(TagNode);
    out.u8(node->getMetadataID());
    out.u8(node->isDistinct());
    // Of debug information only its expressions say something about code.
    if (auto *expression = dyn_cast<DIExpression>(node)) {
      for (uint64_t element : expression->getElements())
        out.u64(element);
      return;
    }
    if (isa<DINode>(node))
      return;
    out.u32(node->getNumOperands());
    for (const MDOperand &operand : node->operands())
      metadata(operand.get());
  }

  void body(const Function &function) {
    uint32_t next = 0;
    for (const Argument &argument : function.args())
      locals[&argument] = next++;
    for (const BasicBlock &block : function) {
      locals[&block] = next++;
      for (const Instruction &instruction : block)
        if (!instruction.isDebugOrPseudoInst())
          locals[&instruction] = next++;
    }
    for (const BasicBlock &block : function) {
      out.u8(TagBlock);
      for (const Instruction &instruction : block) {
        // They make no code; that there is debug information is in the environment.
        if (isa<DbgInfoIntrinsic>(instruction))
          continue;
        this->instruction(instruction);
      }
    }
  }

  void ordering(AtomicOrdering ordering, SyncScope::ID scope) {
    out.u8(static_cast<uint8_t>(ordering));
    if (ordering != AtomicOrdering::NotAtomic)
      out.text(scope < scopes.size() ? scopes[scope] : StringRef("?"));
  }

  void instruction(const Instruction &instruction) {
    out.u8(TagInstruction);
    out.u8(instruction.getOpcode());
    // nuw, nsw, exact, inbounds, disjoint, nneg, and what of floating point may be done fast.
    out.u8(instruction.getRawSubclassOptionalData());
    type(instruction.getType());
    out.u32(instruction.getNumOperands());
    for (const Use &operand : instruction.operands())
      this->operand(operand.get());
    properties(instruction);
    SmallVector<std::pair<unsigned, MDNode *>, 4> all;
    if (instruction.hasMetadataOtherThanDebugLoc())
      instruction.getAllMetadataOtherThanDebugLoc(all);
    attachments(all);
  }

  /// What the operands do not say.
  void properties(const Instruction &instruction) {
    if (auto *alloca = dyn_cast<AllocaInst>(&instruction)) {
      type(alloca->getAllocatedType());
      out.u64(alloca->getAlign().value());
      out.u8(alloca->isUsedWithInAlloca() | alloca->isSwiftError() << 1);
    } else if (auto *load = dyn_cast<LoadInst>(&instruction)) {
      out.u64(load->getAlign().value());
      out.u8(load->isVolatile());
      ordering(load->getOrdering(), load->getSyncScopeID());
    } else if (auto *store = dyn_cast<StoreInst>(&instruction)) {
      out.u64(store->getAlign().value());
      out.u8(store->isVolatile());
      ordering(store->getOrdering(), store->getSyncScopeID());
    } else if (auto *fence = dyn_cast<FenceInst>(&instruction)) {
      ordering(fence->getOrdering(), fence->getSyncScopeID());
    } else if (auto *exchange = dyn_cast<AtomicCmpXchgInst>(&instruction)) {
      out.u64(exchange->getAlign().value());
      out.u8(exchange->isVolatile() | exchange->isWeak() << 1);
      ordering(exchange->getSuccessOrdering(), exchange->getSyncScopeID());
      ordering(exchange->getFailureOrdering(), exchange->getSyncScopeID());
    } else if (auto *change = dyn_cast<AtomicRMWInst>(&instruction)) {
      out.u8(change->getOperation());
      out.u64(change->getAlign().value());
      out.u8(change->isVolatile());
      ordering(change->getOrdering(), change->getSyncScopeID());
    } else if (auto *compare = dyn_cast<CmpInst>(&instruction)) {
      out.u32(compare->getPredicate());
    } else if (auto *address = dyn_cast<GetElementPtrInst>(&instruction)) {
      type(address->getSourceElementType());
    } else if (auto *phi = dyn_cast<PHINode>(&instruction)) {
      for (const BasicBlock *block : phi->blocks())
        operand(block);
    } else if (auto *call = dyn_cast<CallBase>(&instruction)) {
      type(call->getFunctionType());
      out.u32(call->getCallingConv());
      attributes(call->getAttributes());
      // By `flatten`, or an attribute of the statement: this call is inlined without optimisation, too.
      auto *callee = dyn_cast<Function>(call->getCalledOperand()->stripPointerCasts());
      if (callee && !callee->isDeclaration() &&
          call->getAttributes().hasFnAttr(Attribute::AlwaysInline))
        reference(*callee, REPO_FOLLOW);
      if (auto *plain = dyn_cast<CallInst>(call))
        out.u8(plain->getTailCallKind());
      if (auto *branch = dyn_cast<CallBrInst>(call))
        out.u32(branch->getNumIndirectDests());
      out.u32(call->getNumOperandBundles());
      for (unsigned at = 0; at < call->getNumOperandBundles(); ++at) {
        OperandBundleUse bundle = call->getOperandBundleAt(at);
        out.text(bundle.getTagName());
        out.u32(bundle.Inputs.size());
      }
    } else if (auto *extract = dyn_cast<ExtractValueInst>(&instruction)) {
      for (unsigned at : extract->indices())
        out.u32(at);
    } else if (auto *insert = dyn_cast<InsertValueInst>(&instruction)) {
      for (unsigned at : insert->indices())
        out.u32(at);
    } else if (auto *shuffle = dyn_cast<ShuffleVectorInst>(&instruction)) {
      for (int element : shuffle->getShuffleMask())
        out.u32(element);
    } else if (auto *pad = dyn_cast<LandingPadInst>(&instruction)) {
      out.u8(pad->isCleanup());
      for (unsigned at = 0; at < pad->getNumClauses(); ++at)
        out.u8(pad->isCatch(at));
    } else if (auto *cleanup = dyn_cast<CleanupReturnInst>(&instruction)) {
      out.u8(cleanup->hasUnwindDest());
    } else if (auto *catches = dyn_cast<CatchSwitchInst>(&instruction)) {
      out.u8(catches->hasUnwindDest());
    }
  }
};

bool is_in_list(const GlobalValue &value, const SmallPtrSetImpl<GlobalValue *> &list) {
  return list.contains(const_cast<GlobalValue *>(&value));
}

bool is_definition(const GlobalValue &value) { return !value.isDeclaration(); }

/// Only loads, at whatever place in it.
bool is_only_read(const Value &value, unsigned depth = 0) {
  if (depth > 8)
    return false;
  for (const User *user : value.users()) {
    if (auto *load = dyn_cast<LoadInst>(user)) {
      if (load->isVolatile() || load->isAtomic())
        return false;
    } else if (isa<GEPOperator>(user) || isa<BitCastOperator>(user)) {
      if (!is_only_read(*user, depth + 1))
        return false;
    } else {
      return false;
    }
  }
  return true;
}

/// Whether anything is done with its address but to call what is there, to load and to store.
bool has_address(const Value &value, unsigned depth = 0) {
  return depth > 8 || any_of(value.uses(), [&](const Use &use) {
    const User *user = use.getUser();
    if (auto *call = dyn_cast<CallBase>(user))
      return !call->isCallee(&use);
    if (isa<LoadInst>(user))
      return false;
    if (auto *store = dyn_cast<StoreInst>(user))
      return store->getValueOperand() == use.get();
    return !(isa<GEPOperator>(user) || isa<BitCastOperator>(user)) || has_address(*user, depth + 1);
  });
}

bool is_tls_companion(StringRef name) {
  return name.starts_with("_ZTW") || name.starts_with("_ZTH") || name.starts_with("__tls_");
}

} // namespace

/// What is marked as used.
static SmallPtrSet<GlobalValue *, 16> marked(const Module &module) {
  SmallVector<GlobalValue *, 16> list;
  collectUsedGlobalVariables(module, list, false);
  collectUsedGlobalVariables(module, list, true);
  return SmallPtrSet<GlobalValue *, 16>(list.begin(), list.end());
}

RepoModule Walk::module() const {
  return {definitions.data(), definitions.size(), references.data(), references.size(),
          environment.data(), environment.size(), whole,             level,
          has_unasked,        tells_places,       reads_files};
}

/// Whether somebody has it inlined whatever it is: that is done first of all, and what it calls has another caller from then on.
static bool is_copied_first(const Function &function) {
  if (function.use_empty())
    return false;
  return function.hasFnAttribute(Attribute::AlwaysInline) ||
         any_of(function.uses(), [](const Use &use) {
           auto *call = dyn_cast<CallBase>(use.getUser());
           return call && call->isCallee(&use) && call->hasFnAttr(Attribute::AlwaysInline);
         });
}

/// Whether what only `user` calls may come to be called by others before the optimizer has looked at that one. (One that is internal and goes into its
/// one caller first of all is a part of that.)
static bool may_come_to_have_more(const GlobalValue &user) {
  SmallPtrSet<const Function *, 4> seen;
  auto *function = dyn_cast<Function>(&user);
  while (function && is_copied_first(*function)) {
    const Function *caller = nullptr;
    for (const Use &use : function->uses()) {
      auto *call = dyn_cast<CallBase>(use.getUser());
      if (!call || !call->isCallee(&use) || (caller && caller != call->getFunction()))
        return true;
      caller = call->getFunction();
    }
    if (!function->hasLocalLinkage() || !seen.insert(function).second)
      return true;
    function = caller;
  }
  return false;
}

/// Gives internals that more than one definition may come to use hidden names of their own: what the optimizer does to the one
/// user does not depend on the other any more, and their fragments find them by name.
///
/// What stays internal: functions that one other calls, that nothing else is done to, and that may be inlined (they go into it,
/// mostly, and else are part of its fragment); what is private and known by its content; and what somebody may look for by its name or section.
Promoted promote(Module &module, unsigned level, StringRef unit) {
  Promoted result;
  SmallPtrSet<GlobalValue *, 16> used = marked(module);
  std::vector<GlobalObject *> candidates;
  for (GlobalVariable &variable : module.globals())
    candidates.push_back(&variable);
  for (Function &function : module)
    candidates.push_back(&function);
  for (GlobalObject *object : candidates) {
    if (!object->hasLocalLinkage() || object->isDeclaration() || is_llvm(*object) ||
        object->hasComdat() || object->hasSection() || object->isThreadLocal() ||
        is_content(*object) || is_in_list(*object, used))
      continue;
    SmallPtrSet<const Constant *, 8> seen;
    const GlobalValue *user = nullptr;
    bool one = true, calls_only = true, any = false, listed = false;
    for_users(*object, seen, [&](const Use &use, const GlobalValue &by, bool direct) {
      if (&by == object)
        return;
      any = true;
      listed |= is_llvm(by) || isa<GlobalAlias>(by) || isa<GlobalIFunc>(by);
      one &= !user || user == &by;
      user = &by;
      auto *call = direct ? dyn_cast<CallBase>(use.getUser()) : nullptr;
      auto *function = dyn_cast<Function>(object);
      calls_only &= call && call->isCallee(&use) && function &&
                    function->getFunctionType() == call->getFunctionType();
    });
    // Nobody can name what a list of LLVM's or an alias has; these are not pruned.
    if (!any || listed)
      continue;
    auto *variable = dyn_cast<GlobalVariable>(object);
    if (variable && level && !variable->isConstant() && !variable->isExternallyInitialized() &&
        variable->hasInitializer() && is_only_read(*variable))
      // As GlobalOpt would, who sees this of internals only.
      variable->setConstant(true);
    // What is never inlined may come to be called by all who inline its caller.
    auto *function = dyn_cast<Function>(object);
    if (level && function && one && calls_only && !function->hasFnAttribute(Attribute::NoInline) &&
        !may_come_to_have_more(*user))
      continue;
    result.push_back({object, object->getName().str()});
    object->setName(object->getName() + ".repo." + unit);
    object->setLinkage(GlobalValue::ExternalLinkage);
    object->setVisibility(GlobalValue::HiddenVisibility);
    object->setDSOLocal(true);
  }
  return result;
}

/// About what the inliner will see of a function, in its units: the cost of its code without what becomes registers.
uint64_t weight(const Function &function) {
  uint64_t weight = 0;
  for (const Instruction &instruction : instructions(function)) {
    const Value *address = getLoadStorePointerOperand(&instruction);
    if ((address && isa<AllocaInst>(address)) || isa<AllocaInst>(instruction) ||
        isa<CastInst>(instruction) || isa<PHINode>(instruction) ||
        isa<ReturnInst>(instruction) || isa<UnreachableInst>(instruction))
      continue;
    if (auto *branch = dyn_cast<BranchInst>(&instruction); branch && branch->isUnconditional())
      continue;
    if (auto *place = dyn_cast<GetElementPtrInst>(&instruction);
        place && place->hasAllConstantIndices())
      continue;
    if (isa<IntrinsicInst>(instruction) && !isa<MemIntrinsic>(instruction))
      continue;
    weight += 5;
    if (auto *call = dyn_cast<CallBase>(&instruction))
      weight += 25 + 5 * call->arg_size();
    if (auto *choice = dyn_cast<SwitchInst>(&instruction))
      weight += 10 * choice->getNumCases();
  }
  return weight;
}

/// The functions that are so much larger than what the inliner takes (225, and at most half as much again for what is usual) that
/// it will hardly look into them. What others would have of seeing them is not worth that an edit of any function makes all new
/// that reach it: their users get a declaration to see, as if they were in another file.
Sealed sealed(Module &module, unsigned level, unsigned size_level) {
  Sealed result;
  // Without optimisation nobody looks into others.
  if (!level)
    return result;
  const uint64_t limit = size_level ? 150 : 400;
  SmallPtrSet<const GlobalValue *, 16> barred;
  SmallVector<GlobalValue *, 16> used;
  collectUsedGlobalVariables(module, used, false);
  collectUsedGlobalVariables(module, used, true);
  barred.insert(used.begin(), used.end());
  for (GlobalAlias &alias : module.aliases())
    barred.insert(alias.getAliaseeObject());
  for (GlobalIFunc &ifunc : module.ifuncs())
    barred.insert(ifunc.getResolverFunction());
  DenseMap<const Comdat *, unsigned> members;
  for (GlobalObject &object : module.global_objects())
    if (const Comdat *comdat = object.getComdat())
      ++members[comdat];
  const Triple triple(module.getTargetTriple());
  const TargetLibraryInfoImpl library(triple);
  for (Function &function : module) {
    LibFunc known;
    // By their names the optimizer knows what these do.
    bool by_name = function.getName() == "main" || is_llvm(function) ||
                   library.getLibFunc(function.getName(), known);
    const Comdat *comdat = function.getComdat();
    bool shares = comdat && (members[comdat] > 1 || comdat->getName() != function.getName() ||
                             comdat->getSelectionKind() != Comdat::Any);
    if (function.isDeclaration() || function.hasLocalLinkage() ||
        function.hasAvailableExternallyLinkage() || barred.contains(&function) || by_name ||
        GlobalValue::isInterposableLinkage(function.getLinkage()) ||
        shares || function.hasFnAttribute(Attribute::AlwaysInline) ||
        any_of(function, [](const BasicBlock &block) { return block.hasAddressTaken(); }))
      continue;
    if (weight(function) > limit)
      result.insert(&function);
  }
  return result;
}

/// Whether something runs or stays that nobody refers to, and that clang makes wherever it instantiates a template, or would leave out if it could: what
/// constructs static members of templates, and what is marked as used.
static bool has_unasked(const Module &module, const SmallPtrSetImpl<GlobalValue *> &used) {
  auto is_made_once = [](const GlobalValue &value) {
    return value.hasLinkOnceLinkage() || value.hasWeakLinkage();
  };
  for (const GlobalValue *value : used)
    if (is_made_once(*value))
      return true;
  for (const GlobalVariable &variable : module.globals())
    if (variable.isThreadLocal() && is_made_once(variable))
      return true;
  for (StringRef list : {"llvm.global_ctors", "llvm.global_dtors"}) {
    const GlobalVariable *variable = module.getGlobalVariable(list);
    auto *entries = variable && variable->hasInitializer()
                        ? dyn_cast<ConstantArray>(variable->getInitializer())
                        : nullptr;
    if (!entries)
      continue;
    for (const Use &use : entries->operands()) {
      auto *entry = dyn_cast<ConstantStruct>(use.get());
      if (!entry || entry->getNumOperands() < 2)
        return true;
      auto *function = dyn_cast<GlobalValue>(entry->getOperand(1)->stripPointerCasts());
      // (What is initialized in the order of the source is so by one function for all.)
      if (!function || is_made_once(*function) ||
          function->getName().starts_with("__cxx_global_var_init"))
        return true;
      if (entry->getNumOperands() > 2 && !entry->getOperand(2)->isNullValue())
        return true;
    }
  }
  return false;
}

/// Whether a text may be a name by which clang calls what has none: that says on which line of which file it stands.
static bool tells_places(const Module &module) {
  SmallPtrSet<const Constant *, 32> seen;
  SmallVector<const Constant *, 32> todo;
  auto add = [&](const Value *value) {
    auto *constant = dyn_cast<Constant>(value);
    if (constant && !isa<GlobalValue>(constant) && seen.insert(constant).second)
      todo.push_back(constant);
  };
  for (const GlobalVariable &variable : module.globals())
    if (variable.hasInitializer())
      add(variable.getInitializer());
  while (!todo.empty()) {
    const Constant *constant = todo.pop_back_val();
    if (auto *data = dyn_cast<ConstantDataSequential>(constant)) {
      // (Of wide characters, too.)
      StringRef text = data->getRawDataValues();
      std::string narrow;
      if (data->getElementByteSize() > 1) {
        narrow = text.str();
        narrow.erase(std::remove(narrow.begin(), narrow.end(), '\0'), narrow.end());
        text = narrow;
      }
      for (StringRef name : {"(lambda", "(anonymous", "(unnamed"})
        if (text.contains(name))
          return true;
      continue;
    }
    for (const Use &use : constant->operands())
      add(use.get());
  }
  return false;
}

/// What is around the definitions of which they do not tell.
static const char *around(const Module &module) {
  if (!module.getModuleInlineAsm().empty())
    return "file-level assembly";
  return module.getProfileSummary(false) ? "a profile" : nullptr;
}

/// Whether a shared object's code refers by their places to definitions that others see: then it cannot be linked if it does so to what was left out,
/// which is another file's as far as the code generator knows.
static bool has_definitive(const Module &module) {
  if (module.getPICLevel() == PICLevel::NotPIC || module.getPIELevel() != PIELevel::Default)
    return false;
  return any_of(module.global_values(), [](const GlobalValue &value) {
    return is_definition(value) && !value.hasLocalLinkage() && value.hasDefaultVisibility() &&
           value.isDSOLocal();
  });
}

const char *whole(const Module &module) {
  if (module.getNamedMetadata("llvm.dbg.cu"))
    return "debug information";
  if (has_definitive(module))
    return "definitions that no other may replace (-fno-semantic-interposition)";
  const char *why = around(module);
  return why ? why : beside_functions(module);
}

Walk names(Module &module) {
  Walk result;
  result.has_unasked = has_unasked(module, marked(module));
  result.tells_places = tells_places(module);
  result.reads_files = assembly_reads_files(module);
  result.whole = around(module);
  for (GlobalValue &value : module.global_values()) {
    if (!is_definition(value))
      continue;
    RepoDefinition definition{};
    definition.alias_of = REPO_NO_DEFINITION;
    definition.name = value.getName().data();
    definition.name_size = value.getName().size();
    if (is_content(value))
      definition.flags |= REPO_CONTENT;
    result.values.push_back(&value);
    result.definitions.push_back(definition);
  }
  return result;
}

Walk walk(Module &module, unsigned level, unsigned size_level, StringRef unit,
          const Promoted &promoted, const Sealed &sealed, const char *whole) {
  Walk result;
  result.level = level;
  Walker walker(module, level, unit, sealed);
  DenseMap<const GlobalValue *, StringRef> originals;
  for (auto &[value, name] : promoted)
    originals[value] = name;
  DenseMap<const Comdat *, SmallVector<uint32_t, 1>> groups;
  auto add = [&](GlobalValue &value) {
    if (!is_definition(value))
      return;
    walker.index[&value] = result.values.size();
    result.values.push_back(&value);
  };
  for (Function &function : module)
    add(function);
  for (GlobalVariable &variable : module.globals())
    add(variable);
  for (GlobalAlias &alias : module.aliases())
    add(alias);
  for (GlobalIFunc &ifunc : module.ifuncs())
    add(ifunc);

  SmallPtrSet<GlobalValue *, 16> used = marked(module);
  result.has_unasked = has_unasked(module, used);
  result.tells_places = tells_places(module);
  result.reads_files = assembly_reads_files(module);

  result.environment = walker.environment(size_level);
  result.whole = whole;
  // By these names the optimizer may come to call what nobody calls as yet.
  const Triple triple(module.getTargetTriple());
  const TargetLibraryInfoImpl library(triple);
  std::map<std::string, uint32_t> inlined;
  for (GlobalValue &value : module.global_values()) {
    LibFunc known;
    if (!level || !library.getLibFunc(value.getName(), known))
      continue;
    auto *function = dyn_cast<Function>(&value);
    if (function && function->hasAvailableExternallyLinkage())
      inlined[value.getName().str()] = walker.index[function];
    else if (!value.isDeclaration() || !function || !library.getLibFunc(*function, known))
      result.whole = "it has a definition of its own for a function of the C library";
  }

  std::vector<std::vector<RepoReference>> references(result.values.size());
  for (uint32_t at = 0; at < result.values.size(); ++at) {
    GlobalValue &value = *result.values[at];
    RepoDefinition definition{};
    definition.alias_of = REPO_NO_DEFINITION;
    definition.name = value.getName().data();
    definition.name_size = value.getName().size();
    definition.kind = isa<Function>(value)         ? REPO_FUNCTION
                      : isa<GlobalVariable>(value) ? REPO_VARIABLE
                      : isa<GlobalAlias>(value)    ? REPO_ALIAS
                                                   : REPO_IFUNC;
    auto original = originals.find(&value);
    if (original != originals.end()) {
      definition.flags |= REPO_PROMOTED | REPO_DISCARDABLE;
      definition.original = original->second.data();
      definition.original_size = original->second.size();
    }
    if (value.hasLocalLinkage())
      definition.flags |= REPO_LOCAL | REPO_DISCARDABLE;
    if (value.isDiscardableIfUnused() || value.hasAvailableExternallyLinkage())
      definition.flags |= REPO_DISCARDABLE;
    if (value.hasAvailableExternallyLinkage())
      definition.flags |= REPO_AVAILABLE_EXTERNALLY;
    if (is_content(value))
      definition.flags |= REPO_CONTENT;
    if (sealed.contains(&value))
      definition.flags |= REPO_SEALED;
    if (is_llvm(value)) {
      definition.flags |= REPO_LLVM | REPO_NEVER;
      definition.flags &= ~(REPO_DISCARDABLE | REPO_LOCAL);
      if (value.getName() == "llvm.global_ctors" || value.getName() == "llvm.global_dtors")
        definition.flags |= REPO_CONSTRUCTOR;
    }
    auto never = [&](const char *why) {
      definition.flags |= REPO_NEVER;
      definition.reason = why;
    };
    if (isa<GlobalIFunc>(value))
      never("an ifunc");
    else if (isa<GlobalAlias>(value) && !function_of(value))
      never("an alias");
    else if (is_in_list(value, used)) {
      never("marked as used");
      definition.flags &= ~REPO_DISCARDABLE;
    } else if (value.isThreadLocal())
      never("thread-local");
    else if (is_tls_companion(value.getName()))
      never("a companion of thread-local variables");
    else if (value.hasCommonLinkage())
      never("a common symbol");
    else if (value.hasAppendingLinkage())
      never("a list");
    else if (GlobalValue::isInterposableLinkage(value.getLinkage()) && has_address(value))
      // Of a declaration the optimizer takes for granted that it is nowhere else where something else is.
      never("another file may define it, and its address is used");
    else if (value.hasLocalLinkage())
      definition.reason = "internal";

    walker.begin(&value);
    walker.head(value, definition.head, definition.properties);
    walker.body(value, definition.body);
    bool is_alias = isa<GlobalAlias>(value) || isa<GlobalIFunc>(value);
    for (auto &[target, own_flags] : walker.references()) {
      uint32_t flags = own_flags | (is_alias ? uint32_t(REPO_FOLLOW) : 0);
      auto to = walker.index.find(target);
      if (to != walker.index.end())
        references[at].push_back({to->second, flags});
    }
    if (auto *object = dyn_cast<GlobalObject>(&value))
      if (const Comdat *comdat = object->getComdat())
        groups[comdat].push_back(at);
    result.definitions.push_back(definition);
  }

  // Who is not looked into by name may be, once somebody else has it here.
  for (auto &[name, at] : inlined) {
    const RepoDefinition &definition = result.definitions[at];
    result.environment.insert(result.environment.end(), name.begin(), name.end());
    for (const uint8_t *digest : {definition.head, definition.body})
      result.environment.insert(result.environment.end(), digest, digest + 32);
  }

  auto never = [&](uint32_t at, const char *why) {
    if (!(result.definitions[at].flags & REPO_NEVER)) {
      result.definitions[at].flags |= REPO_NEVER;
      result.definitions[at].reason = why;
    }
  };
  // Who is in one section by name is there in one piece, in the order of the module.
  std::map<std::string, std::vector<uint32_t>> sections;
  for (uint32_t at = 0; at < result.values.size(); ++at)
    if (auto *object = dyn_cast<GlobalObject>(result.values[at]))
      if (object->hasSection())
        sections[object->getSection().str()].push_back(at);
  for (auto &[section, members] : sections)
    if (members.size() > 1)
      for (uint32_t member : members)
        never(member, "shares its section");
  // Labels are where the function's code is: without it they lead nowhere.
  for (auto &[user, function] : walker.labels) {
    auto at = walker.index.find(user);
    if (at != walker.index.end())
      never(at->second, "knows labels of a function");
    at = walker.index.find(function);
    if (at != walker.index.end())
      never(at->second, "others know its labels");
  }
  for (auto &[comdat, members] : groups) {
    bool apart = members.size() == 1 &&
                 comdat->getName() == result.values[members[0]]->getName() &&
                 comdat->getSelectionKind() == Comdat::Any;
    if (apart)
      continue;
    for (uint32_t member : members) {
      never(member, "its section group has others");
      // They go together, or stay together.
      for (uint32_t other : members)
        if (other != member)
          references[member].push_back({other, REPO_CONTRIBUTION | REPO_FOLLOW});
    }
  }
  for (uint32_t at = 0; at < result.values.size(); ++at) {
    GlobalValue &value = *result.values[at];
    // What an alias leads to, or an ifunc's resolver is.
    const Function *function = function_of(value);
    if (function && !(result.definitions[at].flags & REPO_NEVER)) {
      // They go together, or stay together.
      uint32_t to = walker.index[function];
      result.definitions[at].alias_of = to;
      references[to].push_back({at, REPO_CONTRIBUTION | REPO_FOLLOW});
    } else if (isa<GlobalAlias>(value) || isa<GlobalIFunc>(value))
      for (auto &reference : references[at])
        never(reference.target, isa<GlobalAlias>(value) ? "has an alias" : "resolves an ifunc");
    // Who uses an internal has a say in what becomes of it.
    // (Of variables that is said of those that could not be promoted, too: the thread's own, and those in sections. One that nobody writes is
    // a constant to all who read it.)
    bool depends_on_users = level && value.hasLocalLinkage() && !is_content(value);
    if (depends_on_users) {
      SmallPtrSet<const Constant *, 8> seen;
      SmallPtrSet<const GlobalValue *, 8> users;
      for_users(value, seen, [&](const Use &, const GlobalValue &by, bool) {
        if (&by != &value)
          users.insert(&by);
      });
      for (const GlobalValue *user : users) {
        auto of = walker.index.find(user);
        if (of == walker.index.end())
          continue;
        references[at].push_back({of->second, REPO_CONTRIBUTION | REPO_FOLLOW});
        // The user sees it all: it must be whatever it becomes.
        for (auto &reference : references[of->second])
          if (reference.target == at)
            reference.flags |= REPO_FOLLOW;
      }
    }
  }
  for (uint32_t at = 0; at < result.values.size(); ++at) {
    result.definitions[at].first_reference = result.references.size();
    result.definitions[at].reference_count = references[at].size();
    result.references.insert(result.references.end(), references[at].begin(),
                             references[at].end());
  }
  return result;
}

} // namespace repo
