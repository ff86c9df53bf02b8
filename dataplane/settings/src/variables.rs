//! Reading single values. An empty variable counts as one that is not set.

use crate::error::SettingError;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The variables of a process, or of a test.
pub struct Variables<'a> {
    source: &'a dyn Fn(&str) -> Option<String>,
}

impl<'a> Variables<'a> {
    /// Variables from anywhere.
    pub fn new(source: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self { source }
    }

    /// The variable of this process, for [`Variables::new`].
    pub fn of_process(name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    /// The text of a variable, if there is any.
    pub fn text(&self, name: &str) -> Option<String> {
        (self.source)(name).filter(|value| !value.is_empty())
    }

    /// A value of a type that reads itself; `allowed` ends "write ...".
    ///
    /// # Errors
    /// It is set and cannot be read.
    pub fn parsed<T: FromStr>(
        &self,
        name: &'static str,
        allowed: &str,
    ) -> Result<Option<T>, SettingError> {
        let Some(value) = self.text(name) else {
            return Ok(None);
        };
        let parsed = value.trim().parse();
        let refused = |_| SettingError::new(name, &value, format!("write {allowed}"));
        parsed.map(Some).map_err(refused)
    }

    /// A number of a range.
    ///
    /// # Errors
    /// It is set, and no number or not in the range.
    pub fn within<T>(
        &self,
        name: &'static str,
        range: RangeInclusive<T>,
    ) -> Result<Option<T>, SettingError>
    where
        T: FromStr + PartialOrd + Display,
    {
        let allowed = format!("a number from {} to {}", range.start(), range.end());
        match self.parsed(name, &allowed)? {
            Some(value) if !range.contains(&value) => {
                let value = value.to_string();
                Err(SettingError::new(name, &value, format!("write {allowed}")))
            }
            read => Ok(read),
        }
    }

    /// A switch; `usual` holds without the variable.
    ///
    /// # Errors
    /// It is set to something that says neither yes nor no.
    pub fn switch(&self, name: &'static str, usual: bool) -> Result<bool, SettingError> {
        Ok(self.optional_switch(name)?.unwrap_or(usual))
    }

    /// A switch, if it is set.
    ///
    /// # Errors
    /// As [`Variables::switch`].
    pub fn optional_switch(&self, name: &'static str) -> Result<Option<bool>, SettingError> {
        let Some(value) = self.text(name) else {
            return Ok(None);
        };
        match value.trim().to_ascii_lowercase().as_str() {
            "1" | "true" | "yes" | "on" => Ok(Some(true)),
            "0" | "false" | "no" | "off" => Ok(Some(false)),
            _ => Err(SettingError::new(name, &value, "write 0 or 1")),
        }
    }

    /// Numbers with commas between them.
    ///
    /// # Errors
    /// One of them is none.
    pub fn numbers(&self, name: &'static str) -> Result<Vec<usize>, SettingError> {
        let value = self.text(name).unwrap_or_default();
        let words = value.split(',').map(str::trim);
        let numbers = words.filter(|_| !value.is_empty()).map(str::parse);
        let refused = |_| SettingError::new(name, &value, "write numbers such as 0,2,4");
        numbers.collect::<Result<_, _>>().map_err(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_or_refused_with_name_value_and_what_is_allowed() {
        let source = |name: &str| Some(name.to_owned());
        let variables = Variables::new(&source);
        assert_eq!(variables.within("17", 1..=32), Ok(Some(17)));
        assert_eq!(variables.switch("yes", false), Ok(true));
        assert_eq!(variables.switch("OFF", true), Ok(false));
        assert_eq!(variables.numbers("0, 3"), Ok(vec![0, 3]));
        let errors = [
            variables.within("33", 1..=32).unwrap_err(),
            variables.within::<u8>("two", 1..=32).unwrap_err(),
            variables.switch("perhaps", false).unwrap_err(),
            variables.numbers("0,,3").unwrap_err(),
        ];
        let texts = errors.map(|error| error.to_string());
        assert_eq!(texts[0], "33 is \"33\"; write a number from 1 to 32");
        assert!(texts.iter().all(|text| text.contains("; write ")), "{texts:?}");
    }

    #[test]
    fn an_empty_variable_is_not_set() {
        let source = |_: &str| Some(String::new());
        let variables = Variables::new(&source);
        assert_eq!(variables.within("A", 1..=2), Ok(None));
        assert_eq!(variables.switch("A", true), Ok(true));
        assert_eq!(variables.numbers("A"), Ok(Vec::new()));
    }
}
