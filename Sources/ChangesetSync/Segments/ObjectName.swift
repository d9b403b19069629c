import StoreCrypto

/// The name of an object at a remote (Docs/Formats/Segment.md). It has the hash of the object's bytes, so damage shows.
package struct ObjectName: Hashable, Sendable, Comparable, CustomStringConvertible {
    package enum Content: Hashable, Sendable {
        /// `author` and `tip` are keyed hashes of the author and of the hash of the last commit.
        case segment(author: String, first: UInt64, last: UInt64, tip: String, part: Int, parts: Int)
        /// `author` is a keyed hash of the maker.
        case snapshot(author: String)
        case snapshotPart
        case memberRecord
        /// Says that the object whose name ends with ``digest`` is damaged.
        case complaint
    }

    package let content: Content
    /// The first 16 bytes of the SHA-256 of the object's bytes, as hexadecimal digits.
    package let digest: String
    package let text: String

    package init(_ content: Content, digest: String) {
        self.content = content
        self.digest = digest
        text =
            switch content {
            case .segment(let author, let first, let last, let tip, let part, let parts):
                "c/\(author)-\(first)-\(last)-\(tip)-\(part)-\(parts)-\(digest)"
            case .snapshot(let author): "s/\(author)-\(digest)"
            case .snapshotPart: "p/\(digest)"
            case .memberRecord: "m/\(digest)"
            case .complaint: "x/\(digest)"
            }
    }

    /// The name of an object with these bytes.
    init(_ content: Content, of bytes: [UInt8]) throws(CryptoError) {
        self.init(content, digest: try Self.digest(of: bytes))
    }

    /// Reads a name of a listing.
    ///
    /// - Returns: nil for every other form.
    package init?(_ text: String) {
        guard text.utf8.count <= ExchangeLimits.nameBytes, text.utf8.count > 2 else { return nil }
        let fields = text.dropFirst(2).split(separator: "-", omittingEmptySubsequences: false).map(String.init)
        guard let digest = fields.last, Self.isHexadecimal(digest, 32) else { return nil }
        switch (text.prefix(2), fields.count) {
        case ("c/", 7):
            guard Self.isHexadecimal(fields[0], 16), Self.isHexadecimal(fields[3], 16),
                let first = UInt64(fields[1]), let last = UInt64(fields[2]), let part = Int(fields[4]),
                let parts = Int(fields[5]), first >= 1, first <= last, last <= UInt64(Int64.max),
                parts >= 1, parts <= ExchangeLimits.parts, part >= 1, part <= parts
            else { return nil }
            content = .segment(
                author: fields[0], first: first, last: last, tip: fields[3], part: part, parts: parts)
        case ("s/", 2):
            guard Self.isHexadecimal(fields[0], 16) else { return nil }
            content = .snapshot(author: fields[0])
        case ("p/", 1): content = .snapshotPart
        case ("m/", 1): content = .memberRecord
        case ("x/", 1): content = .complaint
        default: return nil
        }
        self.digest = digest
        self.text = text
        // Each name has one form: no leading zeros and no plus signs.
        guard ObjectName(content, digest: digest).text == text else { return nil }
    }

    static func digest(of bytes: [UInt8]) throws(CryptoError) -> String {
        var digest = try ContentDigest()
        bytes.withUnsafeBytes { digest.update($0) }
        return FixedBytes<SIMD2<UInt64>>(try digest.finish().prefix(16))?.text ?? ""
    }

    private static func isHexadecimal(_ text: String, _ count: Int) -> Bool {
        text.utf8.count == count
            && text.utf8.allSatisfy {
                (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0)
                    || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains($0)
            }
    }

    package var description: String { text }
    package static func < (one: ObjectName, other: ObjectName) -> Bool { one.text < other.text }
    package static func == (one: ObjectName, other: ObjectName) -> Bool { one.text == other.text }
    package func hash(into hasher: inout Hasher) { hasher.combine(text) }
}
