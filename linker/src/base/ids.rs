//! Dense numbers by which the phases refer to things. All of them depend on the
//! inputs and their order only, never on the number of threads. They last as long as the link: what one tells the next is told by other
//! means ([`incremental`](crate::link::incremental)).

/// An input file: a relocatable object, archive member, ticket or shared object.
/// The order is the command line's, and so is the precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u32);

/// A distinct global symbol name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SymbolId(pub u32);

/// An input section: numbered through all files that are linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SectionId(pub u32);

/// An output section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutputId(pub u32);

/// A part of an output section: input sections of one rule stand together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartId(pub u32);

macro_rules! index {
    ($($name:ident),*) => {$(
        impl $name {
            /// For indexing.
            #[inline]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}
index!(FileId, SymbolId, SectionId, OutputId, PartId);

impl FileId {
    /// The linker itself: it mentions and defines symbols as a file does.
    pub const LINKER: FileId = FileId(0);
}

impl SymbolId {
    /// No symbol.
    pub const NONE: SymbolId = SymbolId(u32::MAX);
}

impl SectionId {
    /// No section.
    pub const NONE: SectionId = SectionId(u32::MAX);
}

impl PartId {
    /// Not copied to the output as bytes of its own.
    pub const NONE: PartId = PartId(u32::MAX);
}
