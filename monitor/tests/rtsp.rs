// SPDX-License-Identifier: GPL-2.0-only
//! The detector of RTSP: the keyword where the first line has it, nothing beyond that line, and the well-known port.

mod common;
use common::{flow, monitor, send, send_cut};

fn found(sport: u16, tcp: bool, payload: &[u8]) -> bool {
    let f = flow("10.0.0.1", "10.0.0.2", sport, 40_000);
    let mut m = monitor();
    let o = send(&mut m, &if tcp { f.tcp(payload) } else { f.udp(payload) }, 0);
    assert_eq!(o.promoted.map(|p| (p.rule, p.after)), o.rt_packet.then_some(("rtsp", 1)));
    assert_eq!((m.rule(), m.has_port(sport)), (o.rt_packet.then_some("rtsp"), o.rt_packet));
    o.rt_packet
}

#[track_caller]
fn assert_text(text: &str, want: bool) {
    for tcp in [true, false] {
        assert_eq!(found(50_000, tcp, text.as_bytes()), want, "{text:?}");
    }
}

#[test]
fn the_port_counts_for_tcp_as_source_and_with_a_payload() {
    assert!(found(554, true, b"$"));
    assert!(found(554, true, b"\0\0"));
    assert!(!found(554, true, b""));
    assert!(!found(554, false, b"$$$$$$$$"));
    for port in [553, 555, 554 + 256, 8554] {
        assert!(!found(port, true, b"$$$$$$$$"), "{port}");
    }
    // A payload that was not captured at all is as good as none.
    let data = flow("10.0.0.1", "10.0.0.2", 554, 40_000).tcp(b"$$$$$$$$");
    for (captured, want) in [(data.len() - 9, false), (data.len() - 8, false), (data.len() - 7, true)] {
        assert_eq!(send_cut(&mut monitor(), &data, captured, 0).rt_packet, want, "{captured} bytes");
    }
    let mut m = monitor();
    assert!(!send(&mut m, &flow("10.0.0.1", "10.0.0.2", 40_000, 554).tcp(b"$$$$$$$$"), 0).rt_packet, "as destination");
}

#[test]
fn a_response_begins_with_the_version() {
    for digit in '0'..='9' {
        assert_text(&format!("RTSP/{digit}.0 200 OK\r\n"), true);
    }
    assert_text("RTSP/1", true);
    for text in [
        "RTSP/",
        "RTSP/x.0 200 OK",
        "RTSP// 200 OK",
        "RTSP/: 200 OK",
        "RTSP 1.0 200 OK",
        "RTSP.1.0 200 OK",
        "rTSP/1.0 200",
    ] {
        assert_text(text, false);
    }
    for at in 0..4 {
        let mut text = b"RTSP/1.0 200 OK".to_vec();
        text[at] ^= 1;
        assert_text(std::str::from_utf8(&text).expect("text"), false);
    }
}

#[test]
fn a_request_has_the_keyword_behind_a_blank() {
    for text in [
        "OPTIONS * RTSP/1.0\r\n",
        "A RTSP/1",
        "Z RTSP/1.0",
        "PLAY rtsp://a/b",
        "PLAY rtspu://a/b",
        "PLAY  RTSP/1.0",
        "GET_PARAMETER x RTSP/1.0",
        "GETX RTSP/1.0",
        "PUTTY RTSP/1.0",
    ] {
        assert_text(text, true);
    }
    for text in [
        "OPTIONS *,RTSP/1.0\r\n",
        "OPTIONSxRTSP/1.0\r\n",
        "PLAY rtspx://a/b",
        "PLAY rtsp//a/bc",
        "PLAY RTSP:/a/bc",
        "PLAY rtsp/1.0 a",
        "PLAY RTSP1.0 ab",
        "play RTSP/1.0 x",
        " PLAY RTSP/1.0 x",
        "@LAY RTSP/1.0 x",
        "[LAY RTSP/1.0 x",
        "1LAY RTSP/1.0 x",
    ] {
        assert_text(text, false);
    }
}

#[test]
fn nothing_beyond_the_first_line_counts() {
    for end in ["\r\n", "\n", "\r", "\0", "\t", "\u{1f}", "\u{7f}"] {
        assert_text(&format!("PLAY x{end} RTSP/1.0 200"), false);
        assert_text(&format!("PLAY x{end}RTSP/1.0 200"), false);
        assert_text(&format!("PLAY x{end}rtsp://a/b RTSP/1.0"), false);
        assert_text(&format!("PLAY RTSP/1.0{end} x"), true);
    }
    assert_text("PLAY ~x RTSP/1.0", true);
    assert!(!found(50_000, true, b"PLAY \x80 RTSP/1.0"), "a byte above the printable ones ends the line");
}

#[test]
fn words_of_the_web_and_of_calls_come_first() {
    for text in [
        "GET / RTSP/1.0",
        "HEAD / RTSP/1.0",
        "HTTP/1.1 200 RTSP/1.0",
        "POST / RTSP/1.0",
        "PUT / RTSP/1.0",
        "SIP/2.0 200 RTSP/1.0",
        "INVITE sip:a@b RTSP/1.0",
    ] {
        assert_text(text, false);
    }
    // As an argument the method's word ends the search too; behind the keyword nothing does.
    assert_text("PLAY GET RTSP/1.0", false);
    assert_text("PLAY HEAD RTSP/1.0", false);
    assert_text("PLAY RTSP/1.0 sip:a@b", true);
    for (other, near) in
        [("GET ", "GEU "), ("HEAD", "HEAE"), ("HTTP", "HTTQ"), ("POST", "POSU"), ("PUT ", "PUU "), ("SIP/", "SIP0")]
    {
        assert_text(&format!("{other} RTSP/1.0"), false);
        assert_text(&format!("{near} RTSP/1.0"), true);
    }
    assert_text("INVITE sip;a@b RTSP/1.0", true);
}

#[test]
fn the_least_length_and_the_farthest_place_of_the_keyword() {
    assert_text("RTSP/", false);
    assert_text("RTSP/1", true);
    assert_text("A RTSP/", false);
    assert_text("A RTSP/1", true);
    // The first 192 bytes are searched: the six of the keyword must lie within them.
    for at in 180..195usize {
        let text = format!("{} RTSP/1.0 and what follows", "A".repeat(at - 1));
        assert_text(&text, at + 6 <= 192);
    }
    // Bytes of the packet before this one do not count: the payload ends where it says.
    let f = flow("10.0.0.1", "10.0.0.2", 50_000, 40_000);
    let data = f.tcp(b"PLAY x RTSP/1.0\r\n");
    let head = data.len() - 17;
    for captured in 0..=17 {
        let mut m = monitor();
        send_cut(&mut m, &data, head + captured, 0);
        assert_eq!(m.is_rt(), captured >= 13, "{captured} bytes of the payload");
    }
}

#[test]
fn a_vm_found_by_one_rule_keeps_it_until_the_next_promotion() {
    let mut m = monitor();
    let rtsp = flow("10.0.0.1", "10.0.0.2", 554, 40_000).tcp(b"$");
    assert_eq!(m.rule(), None);
    assert!(send(&mut m, &rtsp, 0).promoted.is_some());
    for i in 0..5 {
        send(&mut m, &flow("10.0.0.1", "10.0.0.2", 5004, 7000).udp(&common::rtp(0, i, 7)), 1);
    }
    assert_eq!((m.rule(), m.is_rt()), (Some("rtsp"), true));
    assert!(m.timer(2_000_000_000).demoted);
    assert_eq!((m.rule(), m.is_rt()), (Some("rtsp"), false), "why it was so is still told");
    for i in 0..4 {
        send(&mut m, &flow("10.0.0.1", "10.0.0.2", 5004, 7000).udp(&common::rtp(0, i, 9)), 3_000_000_000);
    }
    assert_eq!(m.rule(), Some("rtp"));
    assert!(m.timer(5_000_000_000).demoted);
    m.add_port(1234);
    send(&mut m, &flow("10.0.0.1", "10.0.0.2", 1234, 1).udp(b"x"), 6_000_000_000);
    assert_eq!(m.rule(), Some("port"));
}
