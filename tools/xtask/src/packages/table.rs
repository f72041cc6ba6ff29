//! The packages: where each comes from, and how it is built and tested.
//!
//! The steps are scripts for `sh -e`, run in a copy of the source with this environment: `CC` and `CXX` (with the linker;
//! in one build after the other ld, repo-ld, and repo-ld after repo-cc), `JOBS`; `CFLAGS`, `CXXFLAGS`, `CPPFLAGS` and
//! `LDFLAGS` only with `--distribution-flags`; for Rust `RUSTFLAGS` and `RUSTDOCFLAGS`.

use crate::packages::outcomes::Format;

/// What a package is written in: whose way to the linker it takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Language {
    /// C or C++, by gcc.
    C,
    /// Rust, by cargo.
    Rust,
}

/// Where a source comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// Debian's source package of this name.
    Debian(&'static str),
    /// A tag of a git repository.
    Git {
        /// What to clone.
        url: &'static str,
        /// Its tag.
        tag: &'static str,
    },
    /// A crate of crates.io.
    Crate {
        /// Its name.
        name: &'static str,
        /// Its version.
        version: &'static str,
    },
    /// The files of this project.
    ThisProject,
    /// A directory of this project.
    Own(&'static str),
}

/// A package.
#[derive(Debug)]
pub struct Package {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What it shows.
    pub about: &'static str,
    /// What it is written in.
    pub language: Language,
    /// Where it comes from.
    pub source: Source,
    /// Configures and builds.
    pub build: &'static str,
    /// Runs its tests; its exit code does not matter.
    pub test: &'static str,
    /// Runs all of its tests, if `test` is a selection.
    pub thorough: Option<&'static str>,
    /// What the tests print.
    pub outcomes: &'static [Format],
}

/// The table, small ones first.
pub const PACKAGES: &[Package] = &[
    Package {
        name: "zlib",
        about: "a library, static and shared with a version script",
        language: Language::C,
        source: Source::Debian("zlib"),
        build: r#"
            ./configure
            make -j$JOBS
        "#,
        test: r#"
            make check
            for form in static shared; do
                case $form in static) library=libz.a;; shared) library=libz.so;; esac
                for program in enough fitblk gun gzappend gzjoin gznorm zpipe; do
                    $CC $CFLAGS -D_FILE_OFFSET_BITS=64 -I. examples/$program.c $library $LDFLAGS -o $program-$form
                done
                export LD_LIBRARY_PATH=.
                try() { name=$1; shift; if sh -ec "$*"; then echo "PASS: $name ($form)"; else echo "FAIL: $name ($form)"; fi; }
                try zpipe "./zpipe-$form < deflate.c | ./zpipe-$form -d | cmp - deflate.c"
                try gun "gzip < trees.c | ./gun-$form | cmp - trees.c"
                try gzjoin "gzip < deflate.c > d.gz; gzip < trees.c > t.gz; cat deflate.c trees.c > both; ./gzjoin-$form d.gz t.gz | gzip -d | cmp - both"
                try gznorm "gzip < trees.c | ./gznorm-$form | gzip -d | cmp - trees.c"
                try gzappend "gzip < trees.c > a.gz; ./gzappend-$form a.gz deflate.c; cat trees.c deflate.c > both; gzip -dc a.gz | cmp - both"
                try fitblk "./fitblk-$form 3000 < deflate.c"
                try enough "./enough-$form 30 6 15"
            done
        "#,
        thorough: None,
        outcomes: &[Format::Stars, Format::Automake],
    },
    Package {
        name: "lua",
        about: "an interpreter that exports its symbols to modules",
        language: Language::C,
        source: Source::Git {
            url: "https://github.com/lua/lua",
            tag: "v5.4.8",
        },
        // Its makefile is its developers': -march=native and warnings as errors are left out. The modules are for `attrib.lua`.
        build: r#"
            make -j$JOBS CC="$CC" CFLAGS="${CFLAGS--O2 -g} -std=c99 -DLUA_USE_LINUX -DLUA_USE_READLINE" \
                MYLDFLAGS="-Wl,-E $LDFLAGS" MYLIBS="-ldl -lreadline"
            make -C testes/libs CC="$CC" LUA_DIR=../..
            # A test of signals that kills the wrong process, and leaves one behind, where the machine is busy.
            sed -i "/^print('testing Ctrl C')/,/^end/d" testes/main.lua
        "#,
        test: r#"
            cd testes
            for script in *.lua; do
                # Three are parts of others, and one fills the memory.
                case $script in big.lua|tracegc.lua|bwcoercion.lua|heavy.lua) continue;; esac
                # One of them must not be able to seek on its standard input.
                if true | ../lua $script; then echo "PASS: $script"; else echo "FAIL: $script"; fi
            done
        "#,
        thorough: None,
        outcomes: &[Format::Automake],
    },
    Package {
        name: "zstd",
        about: "library, program and fuzzers, with hand-written assembly and threads",
        language: Language::C,
        source: Source::Debian("libzstd"),
        build: r#"
            make -j$JOBS lib-release
            # What the program uses of the library beyond its interface, which the shared library hides.
            make -j$JOBS -C programs zstd-dll ZSTDLIB_LOCAL_SRC="xxhash.c pool.c threading.c zstd_common.c error_private.c"
            mv programs/zstd programs/zstd-shared
            make -j$JOBS zstd-release
            make -j$JOBS -C tests zstd datagen fuzzer zstreamtest decodecorpus poolTests legacy invalidDictionaries
        "#,
        test: r#"
            try() { name=$1; shift; if "$@"; then echo "PASS: $name"; else echo "FAIL: $name"; fi; }
            shared() { LD_LIBRARY_PATH=../lib ../programs/zstd-shared -c Makefile | ../programs/zstd -d | cmp - Makefile; }
            cd tests
            try shared shared
            try pool ./poolTests
            try legacy ./legacy
            try invalid-dictionaries ./invalidDictionaries
            try decode-corpus ./decodecorpus -t -s1 -n50
            try fuzzer ./fuzzer -s1 -i50
            try streams ./zstreamtest -s1 -i20
            try play make shortest
            # One line for each of its tests; with the name of the build's directory nowhere.
            ./cli-tests/run.py --zstd=../programs/zstd --datagen=./datagen || true
        "#,
        thorough: None,
        outcomes: &[Format::Automake],
    },
    Package {
        name: "sqlite",
        about: "built by libtool, tested by an interpreter with the library inside",
        language: Language::C,
        source: Source::Debian("sqlite3"),
        build: r#"
            ./configure --with-tcl=/usr/lib/x86_64-linux-gnu/tcl8.6 --enable-fts4 --enable-fts5 --enable-json --enable-load-extension
            make -j$JOBS sqlite3 libsqlite3.la testfixture fuzzcheck
        "#,
        test: r#"
            export OMIT_MISUSE=1
            # Of each subject what takes seconds: the rest (fuzzers of its own, I/O errors) is in `thorough`.
            for scripts in select[1-9] selectA selectB join join[2-9] func func[2-4] expr date json101 json102 wal \
                trans trans[23] vtab[1-9A-F] rtree rtree[1-9] loadext loadext2 fts3aa fts3ab fts3ac fts3an fts3auto fts3cov \
                fts4content fts4aa index index[2-7] insert insert[2-5] update delete delete[2-4] trigger[1-9] alter \
                alter2 alter3 collate[1-9] cast like null pragma savepoint subquery types utf16 window1 with1 blob incrblob; do
                for script in test/$scripts.test; do ./testfixture $script || true; done
            done
            if ./fuzzcheck test/fuzzdata1.db test/fuzzdata5.db; then echo "PASS: fuzzcheck"; else echo "FAIL: fuzzcheck"; fi
        "#,
        thorough: Some("OMIT_MISUSE=1 ./testfixture test/veryquick.test"),
        outcomes: &[Format::Sqlite, Format::Automake],
    },
    Package {
        name: "redis",
        about: "a server with jemalloc and Lua inside and loadable modules",
        language: Language::C,
        source: Source::Debian("redis"),
        // Debian's patch is for the system's jemalloc, which has its plain names.
        build: r#"
            sed -i 's/--with-jemalloc-prefix=je_/--with-jemalloc-prefix=/' deps/Makefile
            make -j$JOBS CC="$CC" CXX="$CXX"
            make -j$JOBS -C tests/modules CC="$CC" LD="$CC" || true
        "#,
        test: r#"
            ./runtest --clients $JOBS --no-latency \
                --single unit/type/string --single unit/type/incr --single unit/type/hash --single unit/type/set \
                --single unit/type/zset --single unit/type/list --single unit/scripting --single unit/functions \
                --single unit/expire --single unit/sort --single unit/bitops --single unit/geo --single unit/hyperloglog \
                --single unit/multi --single unit/pubsub --single unit/dump --single unit/scan --single unit/protocol
        "#,
        thorough: Some("./runtest --clients $JOBS; ./runtest-moduleapi --clients $JOBS"),
        outcomes: &[Format::Redis],
    },
    Package {
        name: "git",
        about: "many programs from one archive",
        language: Language::C,
        source: Source::Debian("git"),
        build: r#"
            make -j$JOBS CC="$CC" ${CFLAGS+CFLAGS="$CFLAGS" LDFLAGS="$LDFLAGS"} all
        "#,
        test: GIT_TEST,
        thorough: Some(GIT_TEST_ALL),
        outcomes: &[Format::Tap],
    },
    Package {
        name: "openssl",
        about: "shared libraries with version scripts, modules, hand-written assembly",
        language: Language::C,
        source: Source::Debian("openssl"),
        build: r#"
            ./Configure linux-x86_64 shared enable-md2 enable-rc5 $CFLAGS $LDFLAGS
            make -j$JOBS
        "#,
        // Tests that run beside others write to standard error in the middle of the harness's lines.
        test: r#"
            status=0
            make test HARNESS_JOBS=$JOBS TESTS="alltests -test_ssl_new -test_ssl_old -test_speed -test_fuzz* -test_rsa*" \
                2> errors || status=$?
            cat errors
            exit $status
        "#,
        thorough: Some("make test HARNESS_JOBS=$JOBS 2> errors"),
        outcomes: &[Format::Prove],
    },
    Package {
        name: "cpython",
        about: "an interpreter that exports its symbols to sixty extension modules",
        language: Language::C,
        source: Source::Debian("python3.11"),
        // A security update made pyexpat include what only the interpreter's own modules may.
        build: r#"
            sed -i "s/sources=\['pyexpat.c'\]/&, define_macros=[('Py_BUILD_CORE_MODULE', '1')]/" setup.py
            ./configure --with-ensurepip=no
            make -j$JOBS
        "#,
        test: PYTHON_TEST,
        thorough: Some(PYTHON_TEST_ALL),
        outcomes: &[Format::Junit("results.xml")],
    },
    Package {
        name: "cpython-shared",
        about: "the same as a shared library",
        language: Language::C,
        source: Source::Debian("python3.11"),
        // A security update made pyexpat include what only the interpreter's own modules may.
        build: r#"
            sed -i "s/sources=\['pyexpat.c'\]/&, define_macros=[('Py_BUILD_CORE_MODULE', '1')]/" setup.py
            ./configure --with-ensurepip=no --enable-shared
            make -j$JOBS
        "#,
        test: PYTHON_TEST,
        thorough: Some(PYTHON_TEST_ALL),
        outcomes: &[Format::Junit("results.xml")],
    },
    Package {
        name: "llvm",
        about: "a compiler on 300 static libraries of LLVM and clang 19, with all targets",
        language: Language::C,
        source: Source::Own("tests/bench/programs/src"),
        build: r#"
            llvm=/usr/lib/llvm-19
            libraries=$(ls $llvm/lib/libclang*.a $llvm/lib/libLLVM*.a | grep -v -e '/libclang\.' -e libclang_rt)
            $CXX -O2 -std=c++17 -fno-rtti -w -I$llvm/include $CXXFLAGS clang.cpp -o compiler $LDFLAGS \
                -Wl,--start-group $libraries -Wl,--end-group $($llvm/bin/llvm-config --link-static --system-libs)
        "#,
        // It compiles itself to the same object for every target as Debian's clang does.
        test: r#"
            resources=$(clang-19 -print-resource-dir)
            cat > program.c <<'END'
            #include <stddef.h>
            #include <stdint.h>
            static uint64_t mix(uint64_t x) { x ^= x >> 31; x *= 0x9e3779b97f4a7c15u; return x ^ x >> 29; }
            double sums(const double *a, size_t n, uint64_t *h) { double s = 0;
                for (size_t i = 0; i < n; i++) { s += a[i] * a[n - 1 - i]; *h = mix(*h + i); } return s; }
            int decide(int x) { switch (x) { case 0: return 7; case 1: return 12; case 2: return 5; case 3: return 77;
                case 9: return 1; default: return x * 3 / 7; } }
END
            for target in x86_64 i686 aarch64 armv7 riscv64 mips64 powerpc64le s390x sparcv9 loongarch64 hexagon; do
                for level in 0 2; do
                    name="$target -O$level"
                    options="-triple $target-unknown-linux -O$level -ffreestanding -internal-isystem $resources/include -emit-obj"
                    if clang-19 -cc1 $options program.c -o theirs.o && ./compiler $options program.c -o ours.o && cmp theirs.o ours.o
                    then echo "PASS: $name"; else echo "FAIL: $name"; fi
                done
            done
            ./compiler -triple x86_64-unknown-linux -fsyntax-only nothing.c 2>&1 | grep 'error reading' && echo "PASS: diagnostics"
        "#,
        thorough: None,
        outcomes: &[Format::Automake],
    },
    Package {
        name: "musl",
        about: "a C library that is its own dynamic linker: programs of all kinds on it",
        language: Language::C,
        source: Source::Debian("musl"),
        build: r#"
            ./configure --prefix=$PWD/installed --syslibdir=$PWD/installed/lib
            make -j$JOBS
            make install
        "#,
        test: r#"
cat > subject.c <<'END'
int subject(int a) { static __thread int calls; return a + ++calls; }
END
cat > program.c <<'END'
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <regex.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static __thread int own = 5;
static int begun, last;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
__attribute__((constructor)) static void begin(void) { begun = 1; }
static void *work(void *add) {
    for (int i = 0; i < 1000; i++) { pthread_mutex_lock(&lock); last++; pthread_mutex_unlock(&lock); }
    own += (long)add;
    return (void *)(long)own;
}
static int by_value(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static void told(int good, const char *what) { printf("%s: %s (%s)\n", good ? "PASS" : "FAIL", what, KIND); }
int main(int argc, char **argv) {
    pthread_t threads[4];
    void *sum, *library;
    int numbers[] = { 3, 1, 2 }, (*subject)(int);
    char text[64];
    regex_t regex;
    jmp_buf here;
    told(begun, "constructors");
    for (long i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, (void *)i);
    for (long i = 0; i < 4; i++) { pthread_join(threads[i], &sum); told((long)sum == 5 + i, "a thread's own data"); }
    told(last == 4000 && own == 5, "threads");
    qsort(numbers, 3, sizeof *numbers, by_value);
    told(numbers[0] == 1 && numbers[2] == 3, "qsort");
    snprintf(text, sizeof text, "%.3f %a %s", sqrt(2), 0.5, argv[0] ? "name" : "none");
    told(strcmp(text, "1.414 0x1p-1 name") == 0, "printf");
    told(regcomp(&regex, "^a(b|c)+$", REG_EXTENDED) == 0 && regexec(&regex, "abcb", 0, 0, 0) == 0, "regex");
    told(setjmp(here) || (longjmp(here, 1), 0), "setjmp");
    told(atof("2.5e3") == 2500.0 && strtol("0x7f", 0, 0) == 127, "numbers");
    if (argc > 1) {
        library = dlopen(argv[1], RTLD_NOW);
        subject = library ? (int (*)(int))dlsym(library, "subject") : 0;
        told(subject && subject(1) == 2 && subject(1) == 3, "dlopen");
    }
    free(malloc(100000));
    return 0;
}
END
            musl="$CC -specs lib/musl-gcc.specs"
            sed "s|/usr/lib/musl|$PWD/installed|g" installed/lib/musl-gcc.specs > lib/musl-gcc.specs
            $musl -O1 -fPIC -shared subject.c -o subject.so
            for kind in "-static -no-pie" "-static-pie -fPIE" "-pie -fPIE" "-no-pie -fno-pie"; do
                $musl -O1 $kind "-DKIND=\"$kind\"" program.c -o program || { echo "FAIL: link ($kind)"; continue; }
                case $kind in -static*) ./program;; *) ./program ./subject.so;; esac || echo "FAIL: run ($kind)"
            done
        "#,
        thorough: None,
        outcomes: &[Format::Automake],
    },
    Package {
        name: "valgrind",
        about: "static programs at an address of their own, with libraries that are put under others",
        language: Language::C,
        source: Source::Debian("valgrind"),
        build: r#"
            [ -x configure ] || ./autogen.sh
            ./configure --enable-only64bit
            make -j$JOBS
        "#,
        test: r#"
cat > program.c <<'END'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static int shared;
static void *race(void *unused) { shared++; return unused; }
int main(void) {
    pthread_t threads[2];
    int *leaked = malloc(40), sum = leaked[3] > 7;
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, race, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    leaked = malloc(64);
    printf("%d %d\n", sum + shared > 1, leaked != 0);
    return 0;
}
END
            gcc -g -O0 program.c -o program -lpthread
            try() {
                if ./vg-in-place --tool=$1 $3 ./program > said 2>&1 && grep -q -e "$2" said
                then echo "PASS: $1"; else echo "FAIL: $1"; cat said; fi
            }
            try memcheck "Conditional jump or move depends on uninitialised"
            try memcheck "64 bytes in 1 blocks are definitely lost" --leak-check=full
            try helgrind "Possible data race"
            try drd "Conflicting"
            try callgrind "Collected" --callgrind-out-file=out.callgrind
            try cachegrind "LL misses" "--cache-sim=yes --cachegrind-out-file=out.cachegrind"
            try massif "1 1" --massif-out-file=out.massif
            try dhat "Total:" --dhat-out-file=out.dhat
            try lackey "guest instrs"
            try none "1 1"
        "#,
        thorough: None,
        outcomes: &[Format::Automake],
    },
    Package {
        name: "glibc",
        about: "the C library and its dynamic linker, by changed linker scripts and maps; its own tests of these",
        language: Language::C,
        source: Source::Debian("glibc"),
        // It cannot be built with a distribution's flags for programs.
        build: r#"
            unset CFLAGS CXXFLAGS CPPFLAGS LDFLAGS
            mkdir build
            cd build
            ../configure --prefix=/usr --enable-bind-now --disable-werror --without-selinux CC="$CC" CXX="$CXX"
            make -j$JOBS
        "#,
        test: GLIBC_TEST,
        thorough: Some(GLIBC_TEST_ALL),
        outcomes: &[Format::Automake],
    },
    Package {
        name: "linux",
        about: "a kernel with modules, by its own linker scripts: it is started in an emulator (qemu-system-x86)",
        language: Language::C,
        source: Source::Debian("linux"),
        // The smallest kernel, with what is special about links: a place that is known at the start only (relocations
        // that are kept, a PIE that unpacks it), modules, the page that programs take the time from, 16-bit code.
        build: r#"
            make tinyconfig
            for option in 64BIT PRINTK TTY SERIAL_8250 SERIAL_8250_CONSOLE BLK_DEV_INITRD RD_GZIP BINFMT_ELF MODULES \
                MODULE_UNLOAD RELOCATABLE RANDOMIZE_BASE RANDOMIZE_MEMORY KALLSYMS KALLSYMS_ALL FUTEX EPOLL PROC_FS SYSFS \
                DEVTMPFS MULTIUSER SMP HYPERVISOR_GUEST JUMP_LABEL EFI EFI_STUB ACPI PCI IA32_EMULATION POSIX_TIMERS; do
                ./scripts/config -e $option
            done
            ./scripts/config -m CRC7 -m CRC_ITU_T
            make CC="$CC" HOSTCC="$CC" olddefconfig
            make -j$JOBS CC="$CC" HOSTCC="$CC"
            # What was made of links by objcopy.
            rm -f arch/x86/entry/vdso/*.so arch/x86/boot/compressed/vmlinux.bin
        "#,
        test: r#"
cat > init.c <<'END'
#include <fcntl.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static void told(int good, const char *what) { printf("%s: %s\n", good ? "PASS" : "FAIL", what); }
static void load(const char *name) { told(syscall(SYS_finit_module, open(name, O_RDONLY), "", 0) == 0, name); }
int main(void) {
    struct timespec now;
    const char *page = (const char *)getauxval(AT_SYSINFO_EHDR);
    told(1, "the kernel runs its first program");
    told(page && page[0] == 127 && page[1] == 'E', "it has a vDSO");
    told(clock_gettime(CLOCK_MONOTONIC, &now) == 0, "the clock");
    load("crc7.ko");
    load("crc-itu-t.ko");
    fflush(stdout);
    reboot(RB_AUTOBOOT);
}
END
            command -v qemu-system-x86_64 cpio || { echo "SKIP: the kernel runs its first program"; exit; }
            rm -rf root; mkdir root; cp lib/crc7.ko lib/crc-itu-t.ko root
            $CC -static init.c -o root/init
            (cd root; find . | cpio -o -H newc | gzip) > root.gz
            timeout 300 qemu-system-x86_64 -m 512 -nographic -no-reboot -kernel arch/x86/boot/bzImage -initrd root.gz \
                -append "console=ttyS0 panic=-1" < /dev/null > boot.log 2>&1 || true
            tr -d '\r' < boot.log
            grep -q PASS boot.log || echo "FAIL: the kernel runs its first program"
        "#,
        thorough: None,
        outcomes: &[Format::Automake],
    },
    Package {
        name: "xen",
        about: "a hypervisor, by its own linker script: it is started in an emulator (qemu-system-x86)",
        language: Language::C,
        source: Source::Debian("xen"),
        build: r#"
            cd xen
            make -j$JOBS XEN_TARGET_ARCH=x86_64 CC="$CC" HOSTCC="$CC" defconfig
            make -j$JOBS XEN_TARGET_ARCH=x86_64 CC="$CC" HOSTCC="$CC"
        "#,
        test: r#"
            command -v qemu-system-x86_64 || { echo "SKIP: it starts"; exit; }
            timeout 300 qemu-system-x86_64 -m 512 -nographic -no-reboot -kernel xen/xen \
                -append "console=com1 com1=115200 loglvl=all" < /dev/null > boot.log 2>&1 || true
            said() { if grep -q "$2" boot.log; then echo "PASS: $1"; else echo "FAIL: $1"; fi; }
            said "it starts" "Xen version"
            said "it finds its build id" "build-id: [0-9a-f]"
            said "it looks at the machine" "Video information"
            said "it looks for its first guest" "dom0 kernel not specified"
        "#,
        thorough: None,
        outcomes: &[Format::Automake],
    },
    Package {
        name: "edk2",
        about: "firmware: a hundred modules by -flto, --emit-relocs and a script, made EFI images; started in an emulator",
        language: Language::C,
        source: Source::Debian("edk2"),
        // What becomes an EFI image is changed by objcopy after the link.
        build: r#"
            mkdir tools
            printf '#!/bin/sh\nexec %s "$@"\n' "$CC" > tools/gcc
            chmod +x tools/gcc
            for tool in ar as cpp gcc-ar ld nm objcopy strip; do ln -s "$(command -v $tool)" tools/$tool; done
            make -j$JOBS -C BaseTools ARCH=X64 CC="$CC" CXX="$CXX" BUILD_CC="$CC" BUILD_CXX="$CXX"
            bash -ec '
                export WORKSPACE=$PWD GCC5_BIN=$PWD/tools/ PYTHON_COMMAND=python3
                . ./edksetup.sh
                build -a X64 -t GCC5 -p OvmfPkg/OvmfPkgX64.dsc -b DEBUG -n $JOBS \
                    -D DEBUG_ON_SERIAL_PORT -D SECURE_BOOT_ENABLE=TRUE'
            find Build -name '*.dll' -o -name '*.debug' | xargs rm -f
        "#,
        test: r#"
            command -v qemu-system-x86_64 || { echo "SKIP: the shell"; exit; }
            timeout 60 qemu-system-x86_64 -m 512 -nographic -no-reboot -net none \
                -bios Build/OvmfX64/DEBUG_GCC5/FV/OVMF.fd < /dev/null 2>&1 | tr -d '\r' > boot.log || true
            sed -n 's/^Loading \(PEIM\|driver\) at .* \([A-Za-z0-9]*\)\.efi$/\2/p' boot.log | sort -u | sed 's/^/PASS: /'
            grep -q "UEFI Interactive Shell" boot.log && echo "PASS: the shell" || echo "FAIL: the shell"
        "#,
        thorough: None,
        outcomes: &[Format::Automake],
    },
    Package {
        name: "grub",
        about: "a boot loader: its kernel and 265 modules are made by -r, and tested inside firmware in an emulator (and ovmf)",
        language: Language::C,
        source: Source::Debian("grub2"),
        build: r#"
            ./autogen.sh
            ./configure --with-platform=efi --target=x86_64 --disable-werror --disable-nls \
                CC="$CC" BUILD_CC="$CC" TARGET_CC="$CC" HAVE_CXX=yes
            make -j$JOBS
        "#,
        test: r#"
            make -j$JOBS check TESTS="$(make -pn | sed -n 's/^check_PROGRAMS = //p')" || true
            for firmware in /usr/share/ovmf/OVMF.fd; do
                command -v qemu-system-x86_64 && test -e $firmware || { echo "SKIP: functional tests"; exit; }
                printf 'insmod functional_test\nall_functional_test\nhalt\n' > grub.cfg
                mkdir -p esp/EFI/BOOT
                ./grub-mkstandalone -d grub-core -O x86_64-efi --fonts= --locales= --themes= -o esp/EFI/BOOT/BOOTX64.EFI \
                    boot/grub/grub.cfg=grub.cfg boot/grub/fonts/unicode.pf2=unicode.pf2
                timeout 300 qemu-system-x86_64 -m 512 -nographic -no-reboot -net none -bios $firmware \
                    -drive file=fat:rw:esp,format=raw < /dev/null > boot.log 2>&1 || true
                tr -d '\r' < boot.log | sed -n 's/^\([a-z0-9_]*\): \(PASS\|FAIL\)$/\2: \1 (in the firmware)/p'
            done
        "#,
        thorough: None,
        outcomes: &[Format::Automake],
    },
    Package {
        name: "ripgrep",
        about: "a Rust program, debug",
        language: Language::Rust,
        source: RIPGREP,
        build: "cargo test --locked --no-run",
        test: "cargo test --locked --no-fail-fast",
        thorough: None,
        outcomes: &[Format::Cargo],
    },
    Package {
        name: "ripgrep-release",
        about: "the same, release with debug information",
        language: Language::Rust,
        source: RIPGREP,
        build: "CARGO_PROFILE_RELEASE_DEBUG=full cargo test --locked --release --no-run",
        test: "CARGO_PROFILE_RELEASE_DEBUG=full cargo test --locked --release --no-fail-fast",
        thorough: None,
        outcomes: &[Format::Cargo],
    },
    Package {
        name: "jj",
        about: "a large Rust program of some 400 crates",
        language: Language::Rust,
        // What its tests need is in the workspace only.
        source: Source::Git {
            url: "https://github.com/jj-vcs/jj",
            tag: "v0.44.0",
        },
        build: "cargo test --locked -p jj-lib -p jj-cli --lib --bins --no-run; cargo build --locked -p jj-cli --bins",
        test: "cargo test --locked -p jj-lib -p jj-cli --lib --bins --no-fail-fast",
        thorough: None,
        outcomes: &[Format::Cargo],
    },
    Package {
        name: "jj-release",
        about: "the same, optimised",
        language: Language::Rust,
        source: Source::Git {
            url: "https://github.com/jj-vcs/jj",
            tag: "v0.44.0",
        },
        build: "cargo test --release --locked -p jj-lib -p jj-cli --lib --bins --no-run; cargo build --release --locked -p jj-cli --bins",
        test: "cargo test --release --locked -p jj-lib -p jj-cli --lib --bins --no-fail-fast",
        thorough: None,
        outcomes: &[Format::Cargo],
    },
    Package {
        name: "serde",
        about: "serde and serde_derive by their test suite: a procedural macro",
        language: Language::Rust,
        source: Source::Git {
            url: "https://github.com/serde-rs/serde",
            tag: "v1.0.228",
        },
        build: "cd test_suite; cargo test --no-run",
        test: "cd test_suite; cargo test --no-fail-fast",
        thorough: None,
        outcomes: &[Format::Cargo],
    },
    Package {
        name: "syn",
        about: "the parser of procedural macros; its tests that need no compiler's sources",
        language: Language::Rust,
        source: Source::Git {
            url: "https://github.com/dtolnay/syn",
            tag: "2.0.119",
        },
        build: "cargo test --all-features --no-run --lib",
        test: r#"
            tests=$(cd tests; grep -L "mod repo\|rustc_private\|^#!\[feature" test_*.rs | sed 's/\(.*\)\.rs/--test=\1/')
            cargo test --all-features --no-fail-fast --lib $tests
        "#,
        thorough: None,
        outcomes: &[Format::Cargo],
    },
    Package {
        name: "regex",
        about: "a Rust library; its registry crate is without what its tests read",
        language: Language::Rust,
        source: Source::Git {
            url: "https://github.com/rust-lang/regex",
            tag: "1.13.1",
        },
        build: "cargo test --no-run",
        test: "cargo test --no-fail-fast",
        thorough: None,
        outcomes: &[Format::Cargo],
    },
    tested_crate("serde_json", "1.0.154"),
    tested_crate("anyhow", "1.0.104"),
    tested_crate("thiserror", "2.0.21"),
    tested_crate("async-trait", "0.1.92"),
    tested_crate("quote", "1.0.47"),
    tested_crate("proc-macro2", "1.0.107"),
    tested_crate("semver", "1.0.28"),
    tested_crate("indexmap", "2.14.2"),
    tested_crate("bytes", "1.12.1"),
    Package {
        name: "self",
        about: "this project, and its linker's own tests",
        language: Language::Rust,
        source: Source::ThisProject,
        build: "cargo build --locked --workspace --bins; cargo test --locked -p linker -p format-spec --lib --no-run",
        test: "cargo test --locked -p linker -p format-spec --lib --no-fail-fast",
        thorough: None,
        outcomes: &[Format::Cargo],
    },
];

const RIPGREP: Source = Source::Crate {
    name: "ripgrep",
    version: "15.2.0",
};

/// A crate with its tests in the package, documentation's examples among them.
const fn tested_crate(name: &'static str, version: &'static str) -> Package {
    Package {
        name,
        about: "a Rust library",
        language: Language::Rust,
        source: Source::Crate { name, version },
        build: "cargo test --locked --no-run",
        test: "cargo test --locked --no-fail-fast",
        thorough: None,
        outcomes: &[Format::Cargo],
    }
}

/// Git's scripts for its basics, objects and refs.
const GIT_TEST: &str = r#"
    cd t
    mkdir -p results
    ls t0[0-4]*.sh t1[0-1]*.sh t13*.sh t14*.sh | xargs -P $JOBS -I SCRIPT sh -c './SCRIPT > results/SCRIPT 2>&1 || true'
    for script in results/*; do echo "== ${script#results/}"; cat $script; done
"#;
const GIT_TEST_ALL: &str = r#"
    cd t
    mkdir -p results
    ls t[0-9]*.sh | xargs -P $JOBS -I SCRIPT sh -c './SCRIPT > results/SCRIPT 2>&1 || true'
    for script in results/*; do echo "== ${script#results/}"; cat $script; done
"#;

/// Its tests of programs' starts, of loading at run time, and of the dynamic linker. Debian's source lacks the manual, which
/// the tests in a container would install; and two tests are about the order of GNU ld's PLT slots. What the tests change
/// by hand after the link is none of a linker's outputs any more.
const GLIBC_TEST: &str = r#"
    unset CFLAGS CXXFLAGS CPPFLAGS LDFLAGS
    cd build
    mkdir -p testroot.pristine
    touch testroot.pristine/install.stamp
    make -k -j$JOBS subdirs="csu dlfcn elf" check > check.log 2>&1 || true
    for result in csu/*.test-result dlfcn/*.test-result elf/*.test-result; do
        case $result in elf/tst-audit25?.*) ;; *) head -n 1 $result;; esac
    done
    rm -f elf/tst-p_alignmod?.so elf/tst-debug1mod1.so elf/tst-tls-allocation-failure-static-patched
"#;
const GLIBC_TEST_ALL: &str = r#"
    unset CFLAGS CXXFLAGS CPPFLAGS LDFLAGS
    cd build
    mkdir -p testroot.pristine
    touch testroot.pristine/install.stamp
    make -k -j$JOBS check > check.log 2>&1 || true
    head -q -n 1 */*.test-result
"#;

/// What meets the linker: extension modules, embedding, calls through pointers, building extensions; and the basics.
const PYTHON_TEST: &str = r#"
    export LD_LIBRARY_PATH=$PWD
    ./python -m test -j $JOBS --timeout 900 --junit-xml results.xml \
        test_ctypes test_capi test_embed test_import test_importlib test_dynamic test_distutils test_cppext test_sysconfig \
        test_struct test_array test_math test_cmath test_decimal test_datetime test_re test_json test_pickle test_unicode \
        test_dict test_list test_io test_zlib test_bz2 test_lzma test_hashlib test_hmac test_sqlite3 test_ssl test_zoneinfo \
        test_thread test_threading test_generators test_coroutines test_exceptions test_traceback test_xml_etree_c \
        test_elementtree test_pyexpat test_audioop test_curses test_readline test_mmap test_select test_heapq test_bisect
"#;
const PYTHON_TEST_ALL: &str = r#"
    export LD_LIBRARY_PATH=$PWD
    ./python -m test -j $JOBS --timeout 1800 --junit-xml results.xml
"#;
