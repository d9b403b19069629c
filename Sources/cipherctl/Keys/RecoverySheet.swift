import CipherStore
import KeyCustody
import StoreCrypto
import StorePlatform
import StoreSharing
import StoreTools

/// The four lines of a recovery key, printed once.
struct RecoverySheet {
    static let lineCount = 4
    /// Room for the lines with quotes and commas.
    static let jsonBytes = 256
    private let lines: SecretBytes

    init(_ recovery: RecoveryKey) { lines = recovery.text() }

    /// The lines, each with its end.
    var text: SecretText {
        var text = SecretText(capacity: lines.count)
        lines.withBytes { text.append($0) }
        return text
    }

    /// Lends a line, from 0, without its end; the bytes must not outlive the call.
    func withLine<Result>(_ index: Int, _ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        lines.withBytes { bytes in
            let width = bytes.count / Self.lineCount
            return body(UnsafeRawBufferPointer(rebasing: bytes[index * width..<(index + 1) * width - 1]))
        }
    }

    /// Introduces the key. Only its lines go to standard output, so that a printer or a file gets just the key.
    func introduce(at console: Console) {
        console.note("this recovery key is shown once: write it down, and keep it away from the store")
    }

    private static let attempts = 3

    /// Prompts for one of the lines.
    ///
    /// - Throws: ``CommandFailure`` when it does not match what was printed.
    func askBack() throws {
        let index = Int.random(in: 0..<Self.lineCount)
        for _ in 0..<Self.attempts {
            let prompt = "Type line \(index + 1) of it, to be sure that you have it: "
            guard let typed = try Confirmation.answer(to: prompt) else { break }
            let symbols = Self.symbols(typed)
            let isLine = withLine(index) { line in
                symbols.utf8.elementsEqual(line.lazy.filter { $0 != UInt8(ascii: "-") })
            }
            if isLine { return }
            Console.talk("That is not line \(index + 1).\n")
        }
        throw CommandFailure(
            .failed, "declined", what: "No recovery key was created.", why: "The line was not typed as it was shown.",
            hint: "What was shown opens nothing. Run the command again.")
    }

    /// The significant characters of a line, as a recovery key is read.
    static func symbols(_ line: String) -> String {
        String(
            line.uppercased().compactMap { character -> Character? in
                switch character {
                case " ", "-", "\t", "\r": nil
                case "I", "L": "1"
                case "O": "0"
                default: character
                }
            })
    }
}
