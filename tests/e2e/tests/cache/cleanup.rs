//! What is gone leaves nothing.

use std::time::Duration;

use anyhow::{Result, bail};
use patchbay_harness::wait_for;
use serde_json::json;

use crate::world::{SOON, World, applying, copy, watches};

#[tokio::test]
async fn a_reference_that_is_added_and_removed_many_times_leaves_nothing() -> Result<()> {
    let world = World::new("toggled").await?;
    world.secret("source", "one").await?;
    let without = || applying(json!([]), "target", json!({"k": "", "state": "unasked"}));
    for _ in 0..50 {
        world.script("s", copy()).await?;
        world.copied("one").await?;
        world.script("s", without()).await?;
        world.target(json!({"k": "", "state": "unasked"})).await?;
    }
    assert_eq!(
        world.proxy.count(&watches()),
        1,
        "a watch outlasts a reference for a while"
    );
    let known = async || {
        let asked = world
            .host
            .explain(&["secret", "source", "-n", &world.namespace])
            .await?;
        anyhow::Ok(asked.status.success())
    };
    wait_for("nobody to depend on the source", SOON, async || {
        Ok((!known().await?).then_some(()))
    })
    .await?;
    wait_for("no Secret to be watched", Duration::from_secs(40), async || {
        let open = world.proxy.open_watches();
        let left: Vec<_> = open.iter().filter(|open| watches().matches(open)).collect();
        if left.is_empty() {
            return Ok(Some(()));
        }
        bail!("{left:?}")
    })
    .await
}
