# What compilers make seldom: every kind of reference, sections of odd types, IFUNCs, TLS in all models.
	.text
	.globl odd_start
	.type odd_start, @function
odd_start:
	.cfi_startproc
	movq odd_global@GOTPCREL(%rip), %rax
	addq odd_ifunc@GOTPCREL(%rip), %rax
	call odd_ifunc@PLT
	call odd_weak@PLT
	call *odd_library_function@GOTPCREL(%rip)
	leaq odd_tls_gd@TLSGD(%rip), %rdi
	.cfi_adjust_cfa_offset 8
	data16
	leaq odd_tls_gd@TLSGD(%rip), %rdi
	.value 0x6666
	rex64
	call __tls_get_addr@PLT
	leaq odd_tls_ld@TLSLD(%rip), %rdi
	call __tls_get_addr@PLT
	leaq odd_tls_ld@DTPOFF(%rax), %rax
	movq odd_tls_gd@GOTTPOFF(%rip), %rax
	leaq odd_tls_gd@TLSDESC(%rip), %rax
	call *odd_tls_gd@TLSCALL(%rax)
	cmpq $0, odd_undefined_weak@GOTPCREL(%rip)
	leaq odd_string(%rip), %rsi
	leaq odd_string2(%rip), %rsi
	leaq __start_odd_set(%rip), %rax
	leaq __stop_odd_set(%rip), %rax
	leaq odd_end(%rip), %rax
	ret
odd_end:
	.cfi_endproc
	.size odd_start, .-odd_start

	.weak odd_weak
	.type odd_weak, @function
odd_weak: .cfi_startproc
	ret
	.cfi_endproc
	.weak odd_undefined_weak

	.type odd_resolver, @function
odd_resolver: leaq odd_start(%rip), %rax
	ret
	.globl odd_ifunc
	.type odd_ifunc, @gnu_indirect_function
	.set odd_ifunc, odd_resolver

	.section .text.odd_same1,"ax",@progbits
	.globl odd_same1
	.type odd_same1, @function
odd_same1: movl $7, %eax
	ret
	.size odd_same1, .-odd_same1
	.section .text.odd_same2,"ax",@progbits
	.globl odd_same2
	.type odd_same2, @function
odd_same2: movl $7, %eax
	ret
	.size odd_same2, .-odd_same2
	.section .text.odd_unused,"ax",@progbits
odd_unused: call odd_nowhere_else
	ret

	.section .rodata.odd,"a"
	.quad 5
	.section .rodata.str1.1,"aMS",@progbits,1
odd_string: .string "odd"
odd_string2: .string "an odd"
	.section .rodata.cst8,"aM",@progbits,8
	.quad 1, 2, 1

	.data
	.globl odd_global
	.type odd_global, @object
	.size odd_global, 8
odd_global: .quad odd_start
	.quad odd_ifunc
	.quad odd_same1
	.quad odd_same2
	.quad odd_library_data
	.quad odd_undefined_weak
	.quad odd_string+1
	.long odd_start-odd_end

	.section odd_set,"aw",@progbits
	.quad odd_weak
	.section odd_set2,"awR",@progbits
	.quad 2
	.section .tdata,"awT",@progbits
	.globl odd_tls_gd
	.type odd_tls_gd, @object
odd_tls_gd: .quad 3
odd_tls_ld: .quad 4
	.section .tbss,"awT",@nobits
	.p2align 5
	.skip 40
	.section .bss.odd,"aw",@nobits
	.p2align 6
	.skip 100
	.section .lbss,"awl",@nobits
	.skip 64
	.section .ldata,"awl",@progbits
	.quad odd_start
	.comm odd_common, 24, 16
	.section .init_array.300,"aw",@init_array
	.quad odd_weak
	.section .ctors.65000,"aw",@progbits
	.quad odd_weak
	.section .text.odd_nowhere,"axG",@progbits,odd_group,comdat
	.weak odd_nowhere_else
odd_nowhere_else: ret
	.section .odd_order,"ao",@progbits,.text.odd_same1
	.quad 9
	.section .odd_note,"a",@note
	.p2align 2
	.long 4, 4, 1
	.asciz "Odd"
	.long 7
	.section .odd_unloaded,"",@progbits
	.quad odd_start
	.quad odd_unused
	.section .gnu.warning.odd_weak,"",@progbits
	.ascii "odd_weak is odd"
	.section .note.GNU-stack,"",@progbits
