import StoreCrypto
import StorePlatform

/// The acknowledgement of a user who has examined a changed key log: it is accepted as it is, up to this line.
///
/// The digests identify the bytes that were examined. A later change of these is a problem again.
package struct KeyLogAcknowledgement: Hashable, Sendable {
    static let eventName = "log-acknowledged"

    /// The content of the file before the one with the acknowledgement.
    enum Former {
        case nothing
        case bytes([UInt8])
        /// It was dropped when the log was full.
        case unknown
    }

    /// The number of problems.
    let problems: Int
    /// The epoch of the sidecar: rotations up to it need no line.
    let epoch: UInt64
    /// The digests of the former file, nil without one, and of the present file up to the acknowledgement.
    let former: String?
    let present: String

    init(problems: Int, epoch: UInt64, former: [UInt8]?, present: ArraySlice<UInt8>) throws(CryptoError) {
        self.problems = problems
        self.epoch = epoch
        self.former = if let former { try Self.digest(former[...]) } else { nil }
        self.present = try Self.digest(present)
    }

    var details: [KeyLogField] {
        [.number("problems", UInt64(problems)), .number("epoch", epoch)] + (former.map { [.word("former", $0)] } ?? [])
            + [.word("present", present)]
    }

    /// The content of the file before, as acknowledgements name it.
    enum Digests {
        case nothing
        case digest(String)
        case unknown

        init(of former: Former) throws(CryptoError) {
            switch former {
            case .nothing: self = .nothing
            case .bytes(let bytes): self = .digest(try KeyLogAcknowledgement.digest(bytes[...]))
            case .unknown: self = .unknown
            }
        }
    }

    /// The things that an acknowledgement in a file can be of. The bytes are digested once, however many
    /// acknowledgements there are: other programs can write the file.
    struct Content: ~Copyable {
        private let former: Digests
        private let bytes: [UInt8]
        private var digest: ContentDigest
        private var end = 0

        init(_ former: Digests, _ bytes: [UInt8]) throws(CryptoError) {
            (self.former, self.bytes) = (former, bytes)
            digest = try ContentDigest()
        }

        /// Whether a line is an acknowledgement of the bytes before it. Lines are asked for in their order.
        mutating func isCovered(by entry: KeyLogEntry, at start: Int) throws(CryptoError) -> Bool {
            guard entry.event == eventName else { return false }
            bytes[end..<start].withUnsafeBytes { digest.update($0) }
            end = start
            guard try entry.word("present") == KeyLogAcknowledgement.text(of: digest.current()) else { return false }
            return switch former {
            case .nothing: entry.word("former") == nil
            case .digest(let text): entry.word("former") == text
            case .unknown: true
            }
        }
    }

    private static func digest(_ bytes: ArraySlice<UInt8>) throws(CryptoError) -> String {
        var digest = try ContentDigest()
        bytes.withUnsafeBytes { digest.update($0) }
        return text(of: try digest.finish())
    }

    /// The first half of a SHA-256: 32 digits, the longest word that the log allows.
    private static func text(of digest: [UInt8]) -> String { Hex.text(Array(digest.prefix(16))) }
}
