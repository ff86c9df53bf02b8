//! The call from which a fault returns, and what the handler needs to know of it.
//!
//! It names the thread's guard in a thread-local word of the initial-exec kind: that is one load,
//! and allocates nothing when a signal handler looks at it first. Invariant: the word is the guard
//! of the innermost call of this thread, or null.

use std::ffi::c_void;
use std::ptr::NonNull;

use super::Guard;

unsafe extern "C" {
    /// Calls `body` with `work`. A fault that the handler finds in the ranges of `guard` returns
    /// from here at once.
    pub(super) fn perigee_guard_call(
        body: unsafe extern "C" fn(NonNull<c_void>),
        work: NonNull<c_void>,
        guard: *mut Guard,
    );

    /// The guard of this thread's innermost call, or null.
    safe fn perigee_guard_current() -> *mut Guard;

    /// Code where a call goes on after a fault, with the stack as it was when its body was called.
    static perigee_guard_resume: u8;
}

/// The guard of this thread, or null.
pub(super) fn current() -> *mut Guard {
    perigee_guard_current()
}

/// Makes an interrupted thread go on behind the call of `guard`.
#[cfg(target_arch = "x86_64")]
pub(super) fn resume(context: &mut libc::ucontext_t, guard: &Guard) {
    /// Direction of string instructions, which code may expect to be upwards.
    const DIRECTION: i64 = 0x400;
    let registers = &mut context.uc_mcontext.gregs;
    registers[libc::REG_RSP as usize] = guard.stack as i64;
    registers[libc::REG_RIP as usize] = (&raw const perigee_guard_resume) as i64;
    registers[libc::REG_EFL as usize] &= !DIRECTION;
}

/// Makes an interrupted thread go on behind the call of `guard`.
#[cfg(target_arch = "aarch64")]
pub(super) fn resume(context: &mut libc::ucontext_t, guard: &Guard) {
    context.uc_mcontext.sp = guard.stack as u64;
    context.uc_mcontext.pc = (&raw const perigee_guard_resume) as u64;
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("Write the trampoline of guarded copies for this processor");

std::arch::global_asm!(
    ".pushsection .tbss.perigee_guard,\"awT\",@nobits",
    ".p2align 3",
    ".local perigee_guard",
    ".type perigee_guard, @object",
    ".size perigee_guard, 8",
    "perigee_guard:",
    ".zero 8",
    ".popsection",
);

// The callee's registers are saved, and the guard of an outer call. From the stack pointer that the
// guard holds they come back.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".pushsection .text.perigee_guard,\"ax\",@progbits",
    ".globl perigee_guard_call, perigee_guard_resume, perigee_guard_current",
    ".hidden perigee_guard_call",
    ".hidden perigee_guard_resume",
    ".hidden perigee_guard_current",
    ".type perigee_guard_call, @function",
    ".p2align 4",
    "perigee_guard_call:",
    ".cfi_startproc",
    "push rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbp, -16",
    "mov rbp, rsp",
    ".cfi_def_cfa_register rbp",
    "push rbx",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    ".cfi_offset rbx, -24",
    ".cfi_offset r12, -32",
    ".cfi_offset r13, -40",
    ".cfi_offset r14, -48",
    ".cfi_offset r15, -56",
    "mov rcx, qword ptr [rip + perigee_guard@GOTTPOFF]",
    "push qword ptr fs:[rcx]",
    "mov qword ptr fs:[rcx], rdx",
    "mov qword ptr [rdx], rsp",
    "mov rax, rdi",
    "mov rdi, rsi",
    "call rax",
    "perigee_guard_resume:",
    "mov rcx, qword ptr [rip + perigee_guard@GOTTPOFF]",
    "pop qword ptr fs:[rcx]",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "pop rbp",
    ".cfi_def_cfa rsp, 8",
    "ret",
    ".cfi_endproc",
    ".size perigee_guard_call, . - perigee_guard_call",
    ".type perigee_guard_current, @function",
    ".p2align 4",
    "perigee_guard_current:",
    ".cfi_startproc",
    "mov rcx, qword ptr [rip + perigee_guard@GOTTPOFF]",
    "mov rax, qword ptr fs:[rcx]",
    "ret",
    ".cfi_endproc",
    ".size perigee_guard_current, . - perigee_guard_current",
    ".popsection",
);

#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".pushsection .text.perigee_guard,\"ax\",@progbits",
    ".globl perigee_guard_call",
    ".globl perigee_guard_resume",
    ".globl perigee_guard_current",
    ".hidden perigee_guard_call",
    ".hidden perigee_guard_resume",
    ".hidden perigee_guard_current",
    ".type perigee_guard_call, @function",
    ".p2align 2",
    "perigee_guard_call:",
    ".cfi_startproc",
    "stp x29, x30, [sp, #-176]!",
    ".cfi_def_cfa_offset 176",
    ".cfi_offset x29, -176",
    ".cfi_offset x30, -168",
    "mov x29, sp",
    ".cfi_def_cfa x29, 176",
    "stp x19, x20, [sp, #16]",
    "stp x21, x22, [sp, #32]",
    "stp x23, x24, [sp, #48]",
    "stp x25, x26, [sp, #64]",
    "stp x27, x28, [sp, #80]",
    "stp d8, d9, [sp, #96]",
    "stp d10, d11, [sp, #112]",
    "stp d12, d13, [sp, #128]",
    "stp d14, d15, [sp, #144]",
    ".cfi_offset x19, -160",
    ".cfi_offset x20, -152",
    ".cfi_offset x21, -144",
    ".cfi_offset x22, -136",
    ".cfi_offset x23, -128",
    ".cfi_offset x24, -120",
    ".cfi_offset x25, -112",
    ".cfi_offset x26, -104",
    ".cfi_offset x27, -96",
    ".cfi_offset x28, -88",
    "mrs x9, tpidr_el0",
    "adrp x10, :gottprel:perigee_guard",
    "ldr x10, [x10, #:gottprel_lo12:perigee_guard]",
    "ldr x11, [x9, x10]",
    "str x11, [sp, #160]",
    "str x2, [x9, x10]",
    "mov x11, sp",
    "str x11, [x2]",
    "mov x9, x0",
    "mov x0, x1",
    "blr x9",
    "perigee_guard_resume:",
    "mrs x9, tpidr_el0",
    "adrp x10, :gottprel:perigee_guard",
    "ldr x10, [x10, #:gottprel_lo12:perigee_guard]",
    "ldr x11, [sp, #160]",
    "str x11, [x9, x10]",
    "ldp x19, x20, [sp, #16]",
    "ldp x21, x22, [sp, #32]",
    "ldp x23, x24, [sp, #48]",
    "ldp x25, x26, [sp, #64]",
    "ldp x27, x28, [sp, #80]",
    "ldp d8, d9, [sp, #96]",
    "ldp d10, d11, [sp, #112]",
    "ldp d12, d13, [sp, #128]",
    "ldp d14, d15, [sp, #144]",
    "ldp x29, x30, [sp], #176",
    ".cfi_def_cfa sp, 0",
    "ret",
    ".cfi_endproc",
    ".size perigee_guard_call, . - perigee_guard_call",
    ".type perigee_guard_current, @function",
    ".p2align 2",
    "perigee_guard_current:",
    ".cfi_startproc",
    "mrs x9, tpidr_el0",
    "adrp x10, :gottprel:perigee_guard",
    "ldr x10, [x10, #:gottprel_lo12:perigee_guard]",
    "ldr x0, [x9, x10]",
    "ret",
    ".cfi_endproc",
    ".size perigee_guard_current, . - perigee_guard_current",
    ".popsection",
);
