import Foundation
import Testing

@testable import KeyCustody

/// The output of Keys/generators/make_slots.py, made from the document alone.
struct SlotVectors: Decodable {
    struct Store: Decodable, Sendable, CustomTestStringConvertible {
        var name: String
        var sidecar: String
        var master: String
        var dataKey: String
        var dataKeyContext: String
        var nextKey: String
        var nextMaster: String
        var slots: [Slot]
        var pendingSlots: [Slot]
        var page: String

        var testDescription: String { name }
    }

    struct Slot: Decodable, Sendable {
        var id: UInt64
        var kind: String
        var secret: String
        var slotKey: String
        var additionalData: String
    }

    /// A direct store that is being rotated.
    struct Direct: Decodable, Sendable, CustomTestStringConvertible {
        var name: String
        var sidecar: String
        var passphrase: String
        var nextPassphrase: String
        var key: String
        var nextKey: String
        var additionalData: String

        var testDescription: String { name }
    }

    struct Recovery: Decodable, Sendable, CustomTestStringConvertible {
        var key: String
        var text: String

        var testDescription: String { text }
    }

    var vectors: [Store]
    var direct: [Direct]
    var recovery: [Recovery]

    /// The root of the repository.
    static let root = (0..<5).reduce(URL(filePath: #filePath)) { url, _ in url.deletingLastPathComponent() }

    static func load() -> SlotVectors {
        let file = root.appending(path: "Keys/vectors/slots.json")
        return try! JSONDecoder().decode(SlotVectors.self, from: Data(contentsOf: file))
    }
}

extension String {
    /// The bytes that hexadecimal text stands for.
    var hexBytes: [UInt8] { get throws { try #require(Hex.bytes(utf8)) } }
}
