//! The fault proxy, in front of a real API server.

use std::time::{Duration, Instant};

use anyhow::Result;
use futures::{AsyncBufReadExt, AsyncReadExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams, WatchParams};
use kube::config::KubeConfigOptions;
use kube::core::Request;
use kube::{Client, Config};
use patchbay_harness::{Cluster, Fault, Filter, Proxy, Refusal, Verb, wait_for};
use serde_json::json;

const SOON: Duration = Duration::from_secs(10);

/// A proxy, and a client that goes through it without a retry of its own.
struct World {
    cluster: Cluster,
    proxy: Proxy,
    client: Client,
    namespace: String,
}

impl World {
    async fn new() -> Result<Self> {
        let cluster = Cluster::shared().await?;
        let proxy = Proxy::start(&cluster).await?;
        let config = Config::from_custom_kubeconfig(proxy.kubeconfig()?, &KubeConfigOptions::default()).await?;
        Ok(World {
            namespace: cluster.namespace("proxy").await?,
            client: Client::try_from(config)?,
            cluster,
            proxy,
        })
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Writes past the proxy, and gives the version.
    async fn write(&self, name: &str, value: &str) -> Result<String> {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": value}});
        let applied = self.cluster.apply_in(&self.namespace, &map.to_string()).await?;
        Ok(applied[0].metadata.resource_version.clone().unwrap_or_default())
    }

    /// A watch of all ConfigMaps of the namespace, line by line.
    async fn watch(&self, version: &str) -> Result<futures::io::Lines<impl futures::AsyncBufRead + Unpin + use<>>> {
        let path = format!("/api/v1/namespaces/{}/configmaps", self.namespace);
        let request = Request::new(path).watch(&WatchParams::default(), version)?;
        Ok(Box::pin(self.client.request_stream(request).await?).lines())
    }
}

async fn line<R: futures::AsyncBufRead + Unpin>(lines: &mut futures::io::Lines<R>) -> Result<String> {
    use futures::StreamExt;
    let line = tokio::time::timeout(SOON, lines.next()).await?;
    Ok(line.transpose()?.unwrap_or_default())
}

fn code(error: kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn requests_come_through_and_are_written_down() -> Result<()> {
    let world = World::new().await?;
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "a"}, "data": {"k": "v"}}))?;
    world.maps().create(&PostParams::default(), &map).await?;
    let apply = Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "w"}}));
    world
        .maps()
        .patch("a", &PatchParams::apply("m").force(), &apply)
        .await?;
    assert_eq!(world.maps().get("a").await?.data.unwrap_or_default()["k"], "w");
    let named = ListParams::default().fields("metadata.name=a");
    assert_eq!(world.maps().list(&named).await?.items.len(), 1);
    assert_eq!(code(world.maps().get("none").await.unwrap_err()), 404);

    let seen = world
        .proxy
        .requests(&Filter::any().of("configmaps").in_namespace(&world.namespace));
    let shown: Vec<_> = seen
        .iter()
        .map(|entry| {
            (
                entry.request.verb,
                entry.request.name.as_str(),
                entry.status.unwrap_or_default(),
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            (Verb::Create, "", 201),
            (Verb::Apply, "a", 200),
            (Verb::Get, "a", 200),
            (Verb::List, "a", 200),
            (Verb::Get, "none", 404),
        ]
    );
    assert_eq!(seen[1].request.manager, "m");
    assert_eq!(world.proxy.count(&Filter::writes()), 2);
    assert_eq!(world.proxy.count(&Filter::reads().named("a")), 2);
    Ok(())
}

#[tokio::test]
async fn answers_are_refused_for_as_often_as_is_said() -> Result<()> {
    let world = World::new().await?;
    let reads = || Filter::reads().of("configmaps");
    let fault = world
        .proxy
        .fault_times(2, reads(), Fault::Answer(Refusal::internal_error()));
    for _ in 0..2 {
        assert_eq!(code(world.maps().get("a").await.unwrap_err()), 500);
    }
    assert_eq!(
        code(world.maps().get("a").await.unwrap_err()),
        404,
        "the API server's own answer"
    );
    assert_eq!(fault.hits(), 2);

    let forbidden = world
        .proxy
        .fault(reads().named("secret"), Fault::Answer(Refusal::forbidden()));
    assert_eq!(code(world.maps().get("secret").await.unwrap_err()), 403);
    assert_eq!(code(world.maps().get("a").await.unwrap_err()), 404);
    forbidden.lift();
    assert_eq!(code(world.maps().get("secret").await.unwrap_err()), 404);

    let busy = Refusal::too_many_requests(Duration::from_secs(1));
    let _busy = world.proxy.fault_times(1, reads(), Fault::Answer(busy));
    let begin = Instant::now();
    // kube's own client tries again after as long as it is told.
    assert_eq!(code(world.maps().get("a").await.unwrap_err()), 404);
    assert!(begin.elapsed() >= Duration::from_secs(1));
    Ok(())
}

#[tokio::test]
async fn a_write_whose_answer_is_lost_is_made() -> Result<()> {
    let world = World::new().await?;
    let _lost = world
        .proxy
        .fault_times(1, Filter::writes(), Fault::Lose(Refusal::internal_error()));
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "a"}}))?;
    assert_eq!(
        code(world.maps().create(&PostParams::default(), &map).await.unwrap_err()),
        500
    );
    assert_eq!(
        code(world.maps().create(&PostParams::default(), &map).await.unwrap_err()),
        409
    );
    Ok(())
}

#[tokio::test]
async fn a_held_answer_is_that_of_before() -> Result<()> {
    let world = World::new().await?;
    world.write("a", "before").await?;
    let hold = world.proxy.fault(Filter::reads().of("configmaps"), Fault::Hold);
    let maps = world.maps();
    let read = tokio::spawn(async move { maps.get("a").await });
    hold.wait_until_held(1, SOON).await?;
    world.write("a", "after").await?;
    assert!(!read.is_finished());
    hold.lift();
    assert_eq!(read.await??.data.unwrap_or_default()["k"], "before");
    assert_eq!(world.maps().get("a").await?.data.unwrap_or_default()["k"], "after");
    Ok(())
}

#[tokio::test]
async fn a_watch_is_passed_on_cut_ended_and_spoken_into() -> Result<()> {
    let world = World::new().await?;
    let first = world.write("a", "1").await?;
    let mut lines = world.watch(&first).await?;
    let second = world.write("a", "2").await?;
    assert!(line(&mut lines).await?.contains(&second));
    world.proxy.wait_until_told("configmaps", &second, SOON).await?;
    let told = world.proxy.told(&Filter::watches());
    assert_eq!((told[0].kind.as_str(), told[0].name.as_str()), ("MODIFIED", "a"));
    let open = world.proxy.open_watches();
    assert_eq!((open.len(), open[0].resource.as_str()), (1, "configmaps"));

    assert_eq!(world.proxy.say(&Filter::watches(), b"nonsense\n"), 1);
    assert_eq!(line(&mut lines).await?, "nonsense");
    assert_eq!(world.proxy.cut(&Filter::watches().of("secrets")), 0);
    assert_eq!(world.proxy.cut(&Filter::watches()), 1);
    assert!(line(&mut lines).await.is_err(), "a broken connection");
    assert_eq!(world.proxy.open_watches(), []);

    let mut lines = world.watch(&second).await?;
    world.proxy.end(&Filter::watches());
    assert_eq!(line(&mut lines).await?, "", "an end as it should be");

    let _cutting = world.proxy.cut_every(Duration::from_millis(10), Filter::watches());
    for _ in 0..2 {
        let mut lines = world.watch(&second).await?;
        assert!(line(&mut lines).await.is_err());
    }
    Ok(())
}

#[tokio::test]
async fn a_watch_that_nobody_reads_any_longer_is_closed() -> Result<()> {
    let world = World::new().await?;
    let version = world.write("a", "1").await?;
    let lines = world.watch(&version).await?;
    wait_for("the watch to be open", SOON, async || {
        Ok((world.proxy.open_watches().len() == 1).then_some(()))
    })
    .await?;
    drop(lines);
    wait_for("the watch to be closed", SOON, async || {
        Ok(world.proxy.open_watches().is_empty().then_some(()))
    })
    .await
}

#[tokio::test]
async fn a_stalled_watch_is_silent_and_says_it_all_later() -> Result<()> {
    let world = World::new().await?;
    let version = world.write("a", "1").await?;
    let mut lines = world.watch(&version).await?;
    let stall = world.proxy.fault(Filter::any(), Fault::Stall);
    let second = world.write("a", "2").await?;
    let maps = world.maps();
    let hanging = tokio::spawn(async move { maps.get("a").await });
    let silent = Duration::from_millis(300);
    assert!(tokio::time::timeout(silent, line(&mut lines)).await.is_err());
    assert!(!hanging.is_finished() && world.proxy.told(&Filter::watches()).is_empty());
    stall.lift();
    assert!(line(&mut lines).await?.contains(&second));
    hanging.await??;
    Ok(())
}

#[tokio::test]
async fn a_watch_expires_as_an_answer_and_in_its_stream() -> Result<()> {
    let world = World::new().await?;
    let _answer = world
        .proxy
        .fault_times(1, Filter::watches(), Fault::Answer(Refusal::expired()));
    assert_eq!(
        world
            .watch("1")
            .await
            .map(drop)
            .unwrap_err()
            .downcast::<kube::Error>()
            .map(code)?,
        410
    );
    let _stream = world.proxy.fault_times(1, Filter::watches(), Fault::ExpireStream);
    let mut lines = world.watch("1").await?;
    let first = line(&mut lines).await?;
    assert!(first.contains("ERROR") && first.contains("410"), "{first}");
    Ok(())
}

#[tokio::test]
async fn connections_are_refused_and_taken_again() -> Result<()> {
    let world = World::new().await?;
    let version = world.write("a", "1").await?;
    let mut lines = world.watch(&version).await?;
    world.proxy.refuse_connections(true);
    assert!(line(&mut lines).await.is_err());
    assert!(!matches!(world.maps().get("a").await.unwrap_err(), kube::Error::Api(_)));
    world.proxy.refuse_connections(false);
    world.maps().get("a").await?;
    Ok(())
}

#[tokio::test]
async fn only_one_namespace_of_a_resource_is_shown() -> Result<()> {
    let world = World::new().await?;
    let version = world.write("a", "1").await?;
    let elsewhere = world.cluster.namespace("elsewhere").await?;
    let other = "{apiVersion: v1, kind: ConfigMap, metadata: {name: other}}";
    world.cluster.apply_in(&elsewhere, other).await?;
    let all: Api<ConfigMap> = Api::all(world.client.clone());
    let count = async || anyhow::Ok(all.list(&ListParams::default()).await?.items.len());
    assert!(count().await? > 1);
    world.proxy.confine("configmaps", &world.namespace);
    assert_eq!(count().await?, 1);
    let request = Request::new("/api/v1/configmaps").watch(&WatchParams::default(), &version)?;
    let mut lines = Box::pin(world.client.request_stream(request).await?).lines();
    world.cluster.delete("v1", "ConfigMap", &elsewhere, "other").await?;
    world.write("a", "2").await?;
    assert!(line(&mut lines).await?.contains("\"name\":\"a\""));
    Ok(())
}

#[tokio::test]
async fn quiet_is_waited_for() -> Result<()> {
    let world = World::new().await?;
    let reads = Filter::reads().of("configmaps");
    world.maps().get_opt("a").await?;
    let quiet = Duration::from_millis(200);
    world.proxy.wait_until_quiet(&reads, quiet, SOON).await?;
    let maps = world.maps();
    let busy = tokio::spawn(async move {
        loop {
            let _ = maps.get_opt("a").await;
        }
    });
    let error = world
        .proxy
        .wait_until_quiet(&reads, quiet, quiet * 2)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("configmaps"), "{error}");
    busy.abort();
    Ok(())
}

#[tokio::test]
async fn a_large_answer_streams_through() -> Result<()> {
    let world = World::new().await?;
    for number in 0..20 {
        world.write(&format!("large-{number}"), &"x".repeat(200_000)).await?;
    }
    let path = format!("/api/v1/namespaces/{}/configmaps", world.namespace);
    let request = Request::new(path).list(&ListParams::default())?;
    let mut text = String::new();
    world
        .client
        .request_stream(request)
        .await?
        .read_to_string(&mut text)
        .await?;
    assert!(text.len() > 4_000_000, "{} bytes", text.len());
    Ok(())
}
