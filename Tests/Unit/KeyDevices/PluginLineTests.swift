import Foundation
import StoreCrypto
import StorePlatform
import Testing

@testable import KeyDevices

/// The lines of the protocol of key plugins.
@Suite("Lines of key plugins")
struct PluginLineTests {
    private func reply(_ text: String) -> PluginReply? {
        var buffer = WipedBuffer(capacity: 64 * 1024)
        for byte in text.utf8 { buffer.append(byte) }
        return PluginReply(buffer)
    }

    @Test("Base64 is that of Foundation, for all lengths")
    func base64() {
        for count in 1...70 {
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 * 37 + count) }
            let text = Base64.text(bytes)
            #expect(text == Data(bytes).base64EncodedString())
            #expect(Base64.secret(Array(text.utf8))?.withBytes { Array($0) } == bytes)
        }
        for text in ["", "A", "AA", "AAA", "AA=A", "A===", "====", "AB==", "AAB=", "AA-_", "AA==AA==", "AAAA\n"] {
            #expect(Base64.secret(Array(text.utf8)) == nil, "\(text)")
        }
    }

    @Test("a result is read with its flags")
    func results() {
        guard case .blob([0, 1, 2], isTestable: false, wrapsAlone: true)? = reply("blob AAEC untested alone") else {
            Issue.record("a blob with both flags")
            return
        }
        guard case .blob([0, 1, 2], isTestable: true, wrapsAlone: false)? = reply("blob AAEC") else {
            Issue.record("a blob")
            return
        }
        guard case .failure(.locked, "no more")? = reply("error locked bm8gbW9yZQ==") else {
            Issue.record("an error")
            return
        }
        guard case .foreign? = reply("foreign") else {
            Issue.record("foreign")
            return
        }
    }

    @Test("a text has no characters that control a terminal")
    func texts() {
        let text = Base64.text(Array("P\u{1b}[2JI\u{7f}N\u{9b}?\u{202e}\n".utf8))
        guard case .prompt("P[2JIN?", isShown: true)? = reply("prompt \(text) shown") else {
            Issue.record("a prompt: \(String(describing: reply("prompt \(text) shown")))")
            return
        }
    }

    @Test(
        "any other line is none of the protocol",
        arguments: [
            "", " ", "blob", "blob ", "blob AAEC  alone", "blob AAEC alone alone", "blob AAEC other", "secret",
            "secret =",
            "secret AAEC AAEC", "foreign AAEC", "error AAEC", "error broken AAEC", "prompt AAEC hidden", "Blob AAEC",
            "blob AAEC\r", "answer AAEC",
        ])
    func refused(line: String) { #expect(reply(line) == nil) }
}
