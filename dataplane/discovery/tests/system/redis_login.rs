//! Redis with users, passwords and databases.

use crate::engine::{Engine, directory, settings};
use crate::server::Redis;
use perigee_discovery::settings::Secret;
use perigee_discovery::{Directory, DiscoverySettings};

fn with_login(redis: &Redis, change: impl Fn(&mut DiscoverySettings)) -> Directory {
    let mut settings = settings();
    change(&mut settings);
    Directory::open(&format!("redis://127.0.0.1:{}", redis.port), settings).unwrap()
}

#[test]
fn the_password_comes_from_the_url_or_the_settings() {
    let redis = Redis::start(&["--requirepass", "hush"]);
    let with_url = format!("redis://:hush@127.0.0.1:{}", redis.port);
    let engine = Engine::start(&with_url, "a:1").unwrap();
    let other = with_login(&redis, |settings| {
        settings.redis_password = Secret::new("hush");
    });
    assert_eq!(*other.segment("a:1").unwrap(), engine.document);
}

#[test]
fn a_missing_or_wrong_password_is_explained_and_not_shown() {
    let redis = Redis::start(&["--requirepass", "hush"]);
    for password in ["", "wrong-one"] {
        let other = with_login(&redis, |settings| {
            settings.redis_password = Secret::new(password);
        });
        let text = other.segment("a:1").unwrap_err().to_string();
        assert!(text.contains("MC_REDIS_PASSWORD"), "{text}");
        assert!(password.is_empty() || !text.contains(password), "{text}");
    }
}

#[test]
fn users_of_the_access_list_can_log_in() {
    let redis = Redis::start(&["--user", "engine", "on", ">pass", "~mooncake/*", "+@all"]);
    let other = with_login(&redis, |settings| {
        settings.redis_username = "engine".to_owned();
        settings.redis_password = Secret::new("pass");
    });
    assert!(other.segment("a:1").unwrap_err().to_string().contains("not registered"));
}

#[test]
fn databases_are_kept_apart() {
    let redis = Redis::start(&[]);
    let in_three = format!("redis://127.0.0.1:{}/3", redis.port);
    let engine = Engine::start(&in_three, "a:1").unwrap();
    let same = with_login(&redis, |settings| settings.redis_database = 3);
    assert_eq!(*same.segment("a:1").unwrap(), engine.document);
    let plain = directory(&format!("redis://127.0.0.1:{}", redis.port));
    assert!(plain.segment("a:1").is_err());
}
