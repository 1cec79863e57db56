//! A connection pooler in transaction mode, of the harshest kind.
//!
//! Every transaction of every client goes to the server connection that has rested longest, so whatever a client
//! leaves on a connection (a prepared statement, a setting, a lock) is gone at once, and not only under load.
//! Start-up parameters beyond the few that such poolers know are refused. It speaks just enough of PostgreSQL's
//! protocol for that: https://www.postgresql.org/docs/current/protocol-flow.html

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

const SERVER_CONNECTIONS: usize = 4;
const KNOWN_PARAMETERS: [&str; 6] =
    ["user", "database", "client_encoding", "DateStyle", "TimeZone", "application_name"];
const SSL_REQUEST: i32 = 80_877_103;
const PROTOCOL_3_0: i32 = 196_608;
const READY: u8 = b'Z';

/// Starts a pooler in front of `server` and returns where it listens.
pub(crate) async fn start(server: SocketAddr, user: &str, database: &str) -> SocketAddr {
    let mut idle = VecDeque::new();
    for _ in 0..SERVER_CONNECTIONS {
        idle.push_back(connect(server, user, database).await.unwrap());
    }
    let pool = Arc::new(Pool { free: Semaphore::new(SERVER_CONNECTIONS), idle: Mutex::new(idle) });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (user, database) = (user.to_owned(), database.to_owned());
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let (pool, user, database) = (Arc::clone(&pool), user.clone(), database.clone());
            tokio::spawn(async move {
                client.set_nodelay(true)?;
                greet(&mut client).await?;
                loop {
                    let first = read(&mut client).await?;
                    let _permit = pool.free.acquire().await.unwrap();
                    let mut resting = pool.idle.lock().unwrap().pop_front().unwrap();
                    let carried = carry(&mut client, first, &mut resting).await;
                    if carried.is_err() {
                        // The client left in the middle; its transaction ends with the connection.
                        resting = connect(server, &user, &database).await?;
                    }
                    pool.idle.lock().unwrap().push_back(resting);
                    carried?;
                }
                #[expect(unreachable_code, reason = "it names the type of the errors above")]
                io::Result::Ok(())
            });
        }
    });
    address
}

struct Pool {
    free: Semaphore,
    idle: Mutex<VecDeque<TcpStream>>,
}

/// A message: its kind and its bytes, kind and length included.
struct Message {
    kind: u8,
    bytes: Vec<u8>,
}

/// One transaction: what the client sends up to each Sync or Query, and the answers up to each Ready, until the
/// server is idle again.
async fn carry(client: &mut TcpStream, first: Message, server: &mut TcpStream) -> io::Result<()> {
    let mut message = first;
    loop {
        server.write_all(&message.bytes).await?;
        if matches!(message.kind, b'S' | b'Q') && answer(client, server).await? == b'I' {
            return Ok(());
        }
        message = read(client).await?;
    }
}

/// Passes the server's answers on up to Ready, whose status it returns.
async fn answer(client: &mut TcpStream, server: &mut TcpStream) -> io::Result<u8> {
    loop {
        let answer = read(server).await?;
        client.write_all(&answer.bytes).await?;
        if answer.kind == READY {
            return Ok(answer.bytes[5]);
        }
    }
}

/// Lets a client in, whoever it is.
async fn greet(client: &mut TcpStream) -> io::Result<()> {
    let startup = loop {
        let length = usize::try_from(client.read_i32().await?).unwrap();
        let code = client.read_i32().await?;
        let mut body = vec![0; length - 8];
        client.read_exact(&mut body).await?;
        if code != SSL_REQUEST {
            break body;
        }
        client.write_all(b"N").await?;
    };
    let parameters: Vec<&[u8]> = startup.split(|byte| *byte == 0).filter(|text| !text.is_empty()).collect();
    for name in parameters.iter().step_by(2) {
        let name = std::str::from_utf8(name).unwrap();
        assert!(KNOWN_PARAMETERS.contains(&name), "no pooler takes the start-up parameter {name}");
    }
    client.write_all(&[b'R', 0, 0, 0, 8, 0, 0, 0, 0]).await?;
    client.write_all(&[READY, 0, 0, 0, 5, b'I']).await
}

async fn connect(server: SocketAddr, user: &str, database: &str) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(server).await?;
    stream.set_nodelay(true)?;
    let parameters = format!("user\0{user}\0database\0{database}\0\0");
    stream.write_i32(i32::try_from(parameters.len()).unwrap() + 8).await?;
    stream.write_i32(PROTOCOL_3_0).await?;
    stream.write_all(parameters.as_bytes()).await?;
    while read(&mut stream).await?.kind != READY {}
    Ok(stream)
}

async fn read(stream: &mut TcpStream) -> io::Result<Message> {
    let kind = stream.read_u8().await?;
    let length = stream.read_i32().await?;
    let mut bytes = vec![kind];
    bytes.extend(length.to_be_bytes());
    bytes.resize(usize::try_from(length).unwrap() + 1, 0);
    stream.read_exact(&mut bytes[5..]).await?;
    Ok(Message { kind, bytes })
}
