import CipherStore
import StoreCrypto

/// The name of an object of a replica: the store, the number of a base, and the number of a segment after it.
///
/// Names sort in the order in which the objects were made.
struct ReplicaName: Hashable, Comparable, Sendable {
    let storeID: StoreID
    /// The bases of a store count from 1.
    let base: UInt32
    /// The segments of a base count from 1; 0 is the base itself.
    let segment: UInt32

    init(_ storeID: StoreID, base: UInt32, segment: UInt32) {
        (self.storeID, self.base, self.segment) = (storeID, base, segment)
    }

    /// Reads the name of an object; nil for another text.
    init?(_ object: String) {
        let prefix = ObjectKind.replica.rawValue + "/"
        guard object.hasPrefix(prefix) else { return nil }
        let parts = object.dropFirst(prefix.count).split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 3, parts[0].utf8.count == 2 * StoreID.byteCount,
            let bytes = Hex.bytes(Array(parts[0].utf8)), let storeID = StoreID(bytes: bytes),
            let base = Self.number(parts[1]), let segment = Self.number(parts[2])
        else { return nil }
        self.init(storeID, base: base, segment: segment)
        guard self.object == object else { return nil }
    }

    private static func number(_ text: Substring) -> UInt32? { text.utf8.count == 8 ? UInt32(text, radix: 16) : nil }

    /// The name of the object.
    var object: String { Self.prefix(storeID) + Self.text(base) + "-" + Self.text(segment) }

    /// The beginning of the names of a store.
    static func prefix(_ storeID: StoreID) -> String { ObjectKind.replica.rawValue + "/\(storeID)-" }

    private static func text(_ number: UInt32) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 8 - digits.count) + digits
    }

    var isBase: Bool { segment == 0 }
    /// The next segment of the same base.
    var next: ReplicaName { ReplicaName(storeID, base: base, segment: segment + 1) }

    static func < (left: ReplicaName, right: ReplicaName) -> Bool { left.object < right.object }
}
