//! Arithmetic on polynomials over GF(2) modulo the Castagnoli polynomial, bit-reflected: bit 31 is
//! x^0.
//! Invariant: every function is `const`, so the operators used by the kernels are computed at build
//! time from the polynomial alone and no magic number is typed in.

/// The Castagnoli polynomial, reflected, without its x^32 term.
pub(crate) const POLYNOMIAL: u32 = 0x82F6_3B78;

/// The polynomial 1.
const ONE: u32 = 1 << 31;

/// `value * x`.
const fn times_x(value: u32) -> u32 {
    (value >> 1) ^ (POLYNOMIAL & (value & 1).wrapping_neg())
}

/// `left * right`.
pub(crate) const fn multiply(left: u32, right: u32) -> u32 {
    let mut product = 0;
    let mut shifted = right;
    let mut bit = 32;
    while bit > 0 {
        bit -= 1;
        product ^= shifted & ((left >> bit) & 1).wrapping_neg();
        shifted = times_x(shifted);
    }
    product
}

const _: () = assert!(multiply(ONE, POLYNOMIAL) == POLYNOMIAL, "one is neutral");
const _: () = assert!(multiply(ONE >> 8, ONE >> 8) == ONE >> 16, "x^8 twice");

/// `x^(8 * digit * 256^place)` at `[place][digit]`: the operators for each byte of a 64-bit length.
static DIGITS: [[u32; 256]; 8] = {
    let mut digits = [[ONE; 256]; 8];
    // x^8, then x^(8 * 256), and so on.
    let mut step = ONE >> 8;
    let mut place = 0;
    while place < 8 {
        let mut digit = 1;
        while digit < 256 {
            digits[place][digit] = multiply(digits[place][digit - 1], step);
            digit += 1;
        }
        step = multiply(digits[place][255], step);
        place += 1;
    }
    digits
};

/// `x^(8 * bytes)`: the operator that appends `bytes` zero bytes.
pub(crate) const fn power_of_x_bytes(bytes: u64) -> u32 {
    let mut power = ONE;
    let mut left = bytes;
    let mut place = 0;
    while left != 0 {
        let digit = left & 0xFF;
        if digit != 0 {
            power = multiply(DIGITS[place][digit as usize], power);
        }
        left >>= 8;
        place += 1;
    }
    power
}

/// `x^bits`.
#[cfg(target_arch = "x86_64")]
const fn power_of_x(bits: u64) -> u32 {
    let mut power = power_of_x_bytes(bits / 8);
    let mut left = bits % 8;
    while left > 0 {
        power = times_x(power);
        left -= 1;
    }
    power
}

/// The pair of carry-less factors that moves a 128-bit remainder `bits` further along the message:
/// the first is for its low quadword, the second for its high one.
#[cfg(target_arch = "x86_64")]
pub(crate) const fn fold_factors(bits: u64) -> (i64, i64) {
    // A reflected 64 x 64 product is one place short of 128 bits; the shift by one makes up for it.
    let low = (power_of_x(bits + 32) as u64) << 1;
    let high = (power_of_x(bits - 32) as u64) << 1;
    (low.cast_signed(), high.cast_signed())
}

/// Multiplication by one fixed operator, as four look-ups.
pub(crate) struct ShiftTable([[u32; 256]; 4]);

impl ShiftTable {
    /// The table that appends `bytes` zero bytes.
    pub(crate) const fn for_bytes(bytes: u64) -> ShiftTable {
        let operator = power_of_x_bytes(bytes);
        let mut table = [[0; 256]; 4];
        let mut place = 0;
        while place < 4 {
            let mut byte = 0;
            while byte < 256 {
                table[place][byte] = multiply(operator, (byte as u32) << (8 * place));
                byte += 1;
            }
            place += 1;
        }
        ShiftTable(table)
    }

    /// `value` times the operator.
    pub(crate) fn apply(&self, value: u32) -> u32 {
        let [b0, b1, b2, b3] = value.to_le_bytes();
        let [t0, t1, t2, t3] = &self.0;
        t0[b0 as usize] ^ t1[b1 as usize] ^ t2[b2 as usize] ^ t3[b3 as usize]
    }
}
