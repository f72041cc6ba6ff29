	.text
	.globl odd_library_function
	.type odd_library_function, @function
odd_library_function: ret
	.size odd_library_function, .-odd_library_function
	.data
	.globl odd_library_data
	.type odd_library_data, @object
	.p2align 4
odd_library_data: .quad 1
	.size odd_library_data, 8
	.section .note.GNU-stack,"",@progbits
