//! `MC_LOG_LEVEL`, for programs and the Python modules.

use crate::error::SettingError;
use crate::variables::Variables;

const NAME: &str = "MC_LOG_LEVEL";

/// The lowest level that is logged, as `PERIGEE_LOG` takes it: `trace`, `info`, `warn` or `error`.
///
/// # Errors
/// The variable has another value than Mooncake's.
pub fn log_level(variables: &Variables<'_>) -> Result<Option<&'static str>, SettingError> {
    let Some(text) = variables.text(NAME) else {
        return Ok(None);
    };
    match text.trim().to_ascii_uppercase().as_str() {
        "TRACE" => Ok(Some("trace")),
        "INFO" => Ok(Some("info")),
        "WARNING" => Ok(Some("warn")),
        "ERROR" => Ok(Some("error")),
        _ => Err(SettingError::new(NAME, &text, "write TRACE, INFO, WARNING or ERROR")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mooncakes_words_are_levels_and_others_are_refused() {
        let with = |value: &'static str| {
            let source = move |_: &str| Some(value.to_owned());
            log_level(&Variables::new(&source))
        };
        assert_eq!(with(""), Ok(None));
        let words = ["TRACE", "INFO", "warning", "ERROR"];
        assert_eq!(
            words.map(|word| with(word).unwrap().unwrap()),
            ["trace", "info", "warn", "error"]
        );
        let error = with("loud").unwrap_err().to_string();
        assert!(error.contains(NAME) && error.contains("write TRACE"), "{error}");
    }
}
