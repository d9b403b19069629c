import Foundation
import Testing

@testable import StoreTools

@Suite("The encoding of texts without a header")
struct TextEncodingTests {
    private static let texts = [
        "zeile 5 ü€😀", "CREATE TABLE t (a, b)", "Привет, мир", "Привет", "Γειά σου", "שלום", "नमस्ते दुनिया", "你好，世界。",
        "😃😄😁 lacht 😀",
        "、。，你好世界", "こんにちは、世界", "안녕하세요", "日本語", "tab\ttext\n", "a\tb\t", "abc\n",
    ]

    /// Punctuation of Chinese, and ends of lines, were taken for upper halves.
    @Test("texts of many alphabets are recognized in each encoding", arguments: texts)
    func encodings(text: String) {
        let all: [(TextEncoding, String.Encoding)] = [
            (.utf8, .utf8), (.utf16LittleEndian, .utf16LittleEndian), (.utf16BigEndian, .utf16BigEndian),
        ]
        for (encoding, foreign) in all {
            var evidence = TextEvidence()
            let bytes = Array(text.data(using: foreign) ?? Data())
            for _ in 0..<20 { evidence.add(bytes) }
            #expect(evidence.encoding == encoding, "\(text)")
            #expect(encoding.text(bytes) == text)
        }
    }
}
