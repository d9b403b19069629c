import StorePlatform
import Testing

@Suite("Words of messages")
struct MessageWordTests {
    @Test(
        "a word of a shell is quoted, whatever characters it has",
        arguments: [
            ("/var/lib/app.db", "'/var/lib/app.db'"), ("two words", "'two words'"), ("it's", "'it'\\''s'"),
            ("", "''"), ("~root", "'~root'"), ("$HOME", "'$HOME'"), ("a\"b", "'a\"b'"), ("é", "'é'"),
            ("a\nb'\\1", "$'a\\nb\\'\\\\1'"), ("\u{1b}[1m", "$'\\033[1m'"), ("x\u{202e}y", "$'x\\342\\200\\256y'"),
        ])
    func shell(text: String, word: String) {
        #expect(ShellWord.quoted(text) == word)
    }

    @Test("a path that begins with a dash is no option")
    func dash() {
        #expect(ShellWord.path("-rf") == "'./-rf'")
        #expect(ShellWord.path("a b") == "'a b'")
    }

    @Test("a count has the noun that fits it")
    func counts() {
        #expect(CountText.text(1, "page") == "1 page")
        #expect(CountText.text(0, "page") == "0 pages" && CountText.text(2, "page") == "2 pages")
        #expect(CountText.text(1, "entry", "entries") == "1 entry")
        #expect(CountText.text(3, "entry", "entries") == "3 entries")
        #expect(CountText.seconds(.seconds(1)) == "1 second" && CountText.seconds(.seconds(30)) == "30 seconds")
        #expect(CountText.seconds(.milliseconds(2_500)) == "2.5 seconds")
        #expect(CountText.shortSeconds(.milliseconds(2_460)) == "2.5 s")
        #expect(CountText.shortSeconds(.milliseconds(1_005), digits: 3) == "1.005 s")
        #expect(CountText.bytes(300_000) == "300.0 kB" && CountText.bytes(1_540_000) == "1.5 MB")
        #expect(CountText.speed(bytesPerSecond: 312_400_000) == "312 MB/s")
        #expect(WallClock.utc(1_795_300_399) == "2026-11-21T22:33:19Z")
        #expect(WallClock.utcDay(1_795_300_399) == "2026-11-21")
    }
}
