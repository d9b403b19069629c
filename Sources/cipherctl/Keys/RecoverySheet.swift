import CipherStore
import KeyCustody
import QRCodes
import RecoveryShares
import StoreCrypto
import StorePlatform
import StoreSharing
import StoreTools

/// The lines of a recovery key, or of a share of one, printed once.
struct RecoverySheet {
    let lineCount: Int
    /// A line for people above the lines of a share, and its number; nil for a whole key.
    private let caption: String?
    let number: Int?
    private let lines: SecretBytes

    init(_ recovery: RecoveryKey) {
        (lineCount, caption, number) = (4, nil, nil)
        lines = recovery.text()
    }

    init(_ share: RecoveryShare) {
        (lineCount, caption, number) = (RecoveryShare.lineCount, share.caption, share.header.number)
        lines = share.text()
    }

    /// The lines, each with its end.
    var text: SecretText {
        let caption = caption.map { $0 + "\n" } ?? ""
        var text = SecretText(capacity: caption.utf8.count + lines.count)
        text.append(caption)
        lines.withBytes { text.append($0) }
        return text
    }

    /// The lines as an array of JSON.
    func appendJSON(to text: inout SecretText) {
        text.append("[\"")
        for index in 0..<lineCount {
            if index > 0 { text.append("\", \"") }
            withLine(index) { text.append($0) }
        }
        text.append("\"]")
    }

    /// Room for the lines with quotes and commas.
    var jsonBytes: Int { lines.count + 4 * lineCount }

    /// The lines as a QR code: one line, with a blank in place of each end, so that a code has capitals, digits, hyphens
    /// and blanks alone, which need 5.5 bits each.
    func code() throws(QRCode.Failure) -> QRCode {
        let line = SecretBytes(count: lines.count - 1) { output in
            lines.withBytes { lines in
                for index in output.indices {
                    output[index] = lines[index] == UInt8(ascii: "\n") ? UInt8(ascii: " ") : lines[index]
                }
            }
        }
        return try QRCode(line)
    }

    /// Lends a line, from 0, without its end; the bytes must not outlive the call.
    func withLine<Result>(_ index: Int, _ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        lines.withBytes { bytes in
            let width = bytes.count / lineCount
            return body(UnsafeRawBufferPointer(rebasing: bytes[index * width..<(index + 1) * width - 1]))
        }
    }

    /// Introduces the key. Only its lines go to standard output, so that a printer or a file gets just the key.
    func introduce(at console: Console) {
        console.note(
            number.map { "share \($0) is shown once: write it down, and give it to its holder" }
                ?? "this recovery key is shown once: write it down, and keep it away from the store")
    }

    private static let attempts = 3

    /// Prompts for one of the lines.
    ///
    /// - Throws: ``CommandFailure`` when it does not match what was printed.
    func askBack() throws {
        let index = Int.random(in: 0..<lineCount)
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
