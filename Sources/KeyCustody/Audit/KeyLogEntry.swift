import StoreCrypto
import StorePlatform

/// One line of a key log. The bytes are described in `Docs/Formats/KeyLog.md`.
package struct KeyLogEntry: Hashable, Sendable {
    static let digestBytes = 32
    /// The value that the very first line has instead of the hash of a line before.
    static let beginning = [UInt8](repeating: 0, count: digestBytes)

    /// The number of the line, from 1, without gaps.
    package let number: UInt64
    /// Seconds since 1970.
    package let time: UInt64
    /// The name of the event; a newer version may write events that this one does not know.
    package let event: String
    package let details: [KeyLogField]
    package let process: Int32
    package let user: UInt32
    /// The hash of the line before.
    let previous: [UInt8]
    /// SHA-256 of this line up to the hash.
    package let hash: [UInt8]

    /// The number of the next line. At the greatest number that a line can have it stays the same: another program may
    /// have written a line with that number, and the lines after it must be readable.
    static func number(after number: UInt64) -> UInt64 { min(number + 1, greatestNumber) }

    /// The greatest number of ``CustodyLimits/counterDigits`` digits.
    private static let greatestNumber =
        (0..<CustodyLimits.counterDigits).reduce(UInt64(1)) { power, _ in power * 10 } - 1

    /// The detail with the number of the keyslot whose key authorized the event.
    package static let authorityDetail = "authorized-by"

    /// - Parameters:
    ///   - authority: The keyslot whose key authorized the event; nil where no keyslot did, or it is not known.
    ///   - now: Seconds since 1970.
    init(
        _ event: KeyEvent, authorizedBy authority: UInt64? = nil, number: UInt64, after previous: [UInt8],
        now: UInt64 = WallClock.secondsSince1970,
        process: Int32 = ProcessInspector.currentProcess, user: UInt32 = ProcessInspector.currentUser
    ) throws(CryptoError) {
        self.number = number
        self.time = now
        self.event = event.name
        details = event.details + (authority.map { [.number(Self.authorityDetail, $0)] } ?? [])
        self.process = process
        self.user = user
        self.previous = previous
        let covered = Self.covered(number, now, event.name, details, process, user, previous)
        hash = try Self.digest(Array(covered.utf8))
    }

    /// A detail that is a number.
    func number(_ name: String) -> UInt64? {
        for field in details where field.name == name {
            if case .number(let value) = field.value { return value }
        }
        return nil
    }

    /// The line without its end.
    package var line: String {
        Self.covered(number, time, event, details, process, user, previous) + ",\"hash\":\"\(Hex.text(hash))\"}"
    }

    private static func covered(
        _ number: UInt64, _ time: UInt64, _ event: String, _ details: [KeyLogField], _ process: Int32, _ user: UInt32,
        _ previous: [UInt8]
    ) -> String {
        let fields = details.map { field in
            switch field.value {
            case .number(let value): ",\"\(field.name)\":\(value)"
            case .word(let word): ",\"\(field.name)\":\"\(word)\""
            }
        }
        return "{\"number\":\(number),\"time\":\(time),\"event\":\"\(event)\"" + fields.joined()
            + ",\"process\":\(process),\"user\":\(user),\"previous\":\"\(Hex.text(previous))\""
    }

    private static func digest(_ bytes: [UInt8]) throws(CryptoError) -> [UInt8] {
        var digest = try ContentDigest()
        bytes.withUnsafeBytes { digest.update($0) }
        return try digest.finish()
    }
}

extension KeyLogEntry {
    /// Reads a line, without its end.
    ///
    /// - Returns: The entry, or nil when the bytes are not exactly the line of an entry, including its hash.
    package init?(reading bytes: [UInt8]) throws(CryptoError) {
        guard bytes.count <= CustodyLimits.keyLogLineBytes, let (read, covered) = Self.parse(bytes) else { return nil }
        self = read
        guard try Self.digest(Array(covered)) == hash else { return nil }
    }

    private init(
        number: UInt64, time: UInt64, event: String, details: [KeyLogField], process: Int32, user: UInt32,
        previous: [UInt8], hash: [UInt8]
    ) {
        (self.number, self.time, self.event, self.details) = (number, time, event, details)
        (self.process, self.user, self.previous, self.hash) = (process, user, previous, hash)
    }

    /// - Returns: The entry and the bytes that its hash covers; nil where the bytes are not exactly a line.
    private static func parse(_ bytes: [UInt8]) -> (KeyLogEntry, covered: ArraySlice<UInt8>)? {
        var scanner = SidecarScanner(bytes)
        do {
            try scanner.literal("{\"number\":")
            let number = try scanner.number("number")
            try scanner.literal(",\"time\":")
            let time = try scanner.number("time", atLeast: 0)
            try scanner.literal(",\"event\":\"")
            let event = try scanner.word("event")
            try scanner.literal("\"")
            var details: [KeyLogField] = []
            while !scanner.startsWith(",\"process\":") { details.append(try field(&scanner)) }
            try scanner.literal(",\"process\":")
            let process = try scanner.number("process", atLeast: 0)
            try scanner.literal(",\"user\":")
            let user = try scanner.number("user", atLeast: 0)
            try scanner.literal(",\"previous\":\"")
            let previous = try scanner.hex(byteCount: digestBytes, "previous")
            try scanner.literal("\"")
            let covered = scanner.consumed
            try scanner.literal(",\"hash\":\"")
            let hash = try scanner.hex(byteCount: digestBytes, "hash")
            try scanner.literal("\"}")
            guard scanner.isAtEnd, let process = Int32(exactly: process), let user = UInt32(exactly: user) else {
                return nil
            }
            let entry = KeyLogEntry(
                number: number, time: time, event: event, details: details, process: process, user: user,
                previous: previous, hash: hash)
            return (entry, covered)
        } catch {
            return nil
        }
    }

    private static func field(_ scanner: inout SidecarScanner) throws(SidecarSyntaxError) -> KeyLogField {
        try scanner.literal(",\"")
        let name = try scanner.word("name")
        try scanner.literal("\":")
        guard scanner.startsWith("\"") else { return .number(name, try scanner.number(name, atLeast: 0)) }
        try scanner.literal("\"")
        let word = try scanner.word(name)
        try scanner.literal("\"")
        return .word(name, word)
    }
}
