//! What a program can ask of a store or an engine, as spans name it. Invariant: a number keeps its
//! meaning, because processes of different builds read it.

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $label:literal;)*) => {
        /// Operation of a store or an engine.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Operation {
            $($(#[$doc])* $name = $number,)*
        }

        impl Operation {
            /// The operation with a number; `None` for one that this build does not know.
            pub fn from_number(number: u8) -> Option<Self> {
                match number { $($number => Some(Self::$name),)* _ => None }
            }

            /// Its name.
            pub const fn label(self) -> &'static str {
                match self { $(Self::$name => $label,)* }
            }
        }
    };
}

operations! {
    /// One object is read.
    Get = 0, "get";
    /// Several objects are read.
    BatchGet = 1, "batch_get";
    /// Parts of objects are read.
    ReadRanges = 2, "read_ranges";
    /// One object is written.
    Put = 3, "put";
    /// Several objects are written.
    BatchPut = 4, "batch_put";
    /// One object is written in place of another.
    Upsert = 5, "upsert";
    /// Several objects are.
    BatchUpsert = 6, "batch_upsert";
    /// Whether objects are there.
    Exist = 7, "exist";
    /// Where objects lie.
    Locate = 8, "locate";
    /// Objects are removed.
    Remove = 9, "remove";
    /// An engine moves a batch of requests.
    Transfer = 10, "transfer";
}

/// One more than the largest number.
pub(crate) const OPERATIONS: usize = 11;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_one_operation() {
        let all: Vec<Operation> = (0..=u8::MAX).filter_map(Operation::from_number).collect();
        assert_eq!(all.len(), OPERATIONS);
        assert!(all.iter().enumerate().all(|(number, one)| *one as usize == number));
    }
}
