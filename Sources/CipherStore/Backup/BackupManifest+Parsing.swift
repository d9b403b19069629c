import KeyCustody
import PageFormat
import StorePlatform

extension BackupManifest {
    /// A violation of the format.
    package struct SyntaxError: Error, Hashable {
        let line: Int
        let expected: String
        var isAhead = false
    }

    /// Parses the bytes of a manifest: exactly what ``encoded(_:)`` writes, with one order of fields and no other
    /// blanks.
    package static func parse(_ bytes: [UInt8]) throws(SyntaxError) -> ReadManifest {
        var scanner = ManifestScanner(bytes)
        try scanner.literal("{\n  \"format\": \"\(formatName)\",\n  \"version\": ")
        let version = try scanner.number("version")
        guard version == formatVersion else {
            throw SyntaxError(line: 3, expected: "version \(formatVersion)", isAhead: version > formatVersion)
        }
        try scanner.literal(",\n  \"store_id\": \"")
        guard let storeID = StoreID(bytes: try scanner.hex(StoreID.byteCount)) else {
            throw scanner.failure("an identifier")
        }
        let epoch = try scanner.field("epoch", after: "\",\n")
        let generation = try scanner.field("generation", after: ",\n")
        let created = try scanner.field("created", after: ",\n")
        let pageBytes = Int(try scanner.field("page_bytes", after: ",\n"))
        guard PageLayout.isPageSize(pageBytes) else { throw scanner.failure("a page size") }
        guard let pages = UInt32(exactly: try scanner.field("pages", after: ",\n")), pages > 0 else {
            throw scanner.failure("a number of pages")
        }
        let database = try scanner.file("database", named: BackupBundle.databaseName)
        let sidecar = try scanner.file("sidecar", named: BackupBundle.sidecarName)
        try scanner.literal(",\n  \"library\": \"")
        let library = try scanner.text()
        try scanner.literal("\",\n  \"mac\": \"")
        let mac = try scanner.hex(32)
        try scanner.literal("\"\n}\n")
        guard scanner.isAtEnd else { throw scanner.failure("the end of the file") }
        return ReadManifest(
            manifest: BackupManifest(
                storeID: storeID, epoch: epoch, generation: generation, created: created, pageBytes: pageBytes,
                pages: pages, database: database, sidecar: sidecar, library: library), mac: mac)
    }
}

/// Scans a manifest's bytes from first to last.
private struct ManifestScanner {
    private let bytes: [UInt8]
    private var position = 0

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    var isAtEnd: Bool { position == bytes.count }

    func failure(_ expected: String) -> BackupManifest.SyntaxError {
        let line = bytes[..<position].reduce(1) { $0 + ($1 == UInt8(ascii: "\n") ? 1 : 0) }
        return BackupManifest.SyntaxError(line: line, expected: expected)
    }

    mutating func literal(_ text: String) throws(BackupManifest.SyntaxError) {
        let matching = zip(bytes[position...], text.utf8).prefix { $0 == $1 }.count
        position += matching
        guard matching == text.utf8.count else {
            // The text may span lines: the one that counts has the first byte that differs.
            let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
            let line = lines[text.utf8.prefix(matching).count { $0 == UInt8(ascii: "\n") }].trimmed
            throw failure(line.isEmpty ? "the end of the line" : line)
        }
    }

    mutating func field(_ name: String, after former: String) throws(BackupManifest.SyntaxError) -> UInt64 {
        try literal("\(former)  \"\(name)\": ")
        return try number(name)
    }

    mutating func file(_ name: String, named fileName: String) throws(BackupManifest.SyntaxError) -> BackupManifest.File
    {
        try literal(",\n  \"\(name)\": {\"name\": \"\(fileName)\", \"bytes\": ")
        let count = Int(try number("bytes"))
        try literal(", \"sha256\": \"")
        let hash = try hex(32)
        try literal("\"}")
        return BackupManifest.File(name: fileName, byteCount: count, sha256: hash)
    }

    /// Reads a decimal number without sign, leading zero, fraction or exponent.
    mutating func number(_ field: String) throws(BackupManifest.SyntaxError) -> UInt64 {
        let digits = bytes[position...].prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        guard !digits.isEmpty, digits.count <= 18, digits.count == 1 || digits.first != UInt8(ascii: "0") else {
            throw failure("\(field): a number")
        }
        position += digits.count
        return digits.reduce(UInt64(0)) { $0 * 10 + UInt64($1 - UInt8(ascii: "0")) }
    }

    mutating func hex(_ byteCount: Int) throws(BackupManifest.SyntaxError) -> [UInt8] {
        let digits = bytes[position...].prefix(byteCount * 2)
        let hasCapitals = digits.contains { (UInt8(ascii: "A")...UInt8(ascii: "F")).contains($0) }
        guard digits.count == byteCount * 2, !hasCapitals, let value = Hex.bytes(digits) else {
            throw failure("\(byteCount * 2) lower-case hexadecimal digits")
        }
        position += digits.count
        return value
    }

    /// Reads printable characters that need no escaping, up to a quote, which is not consumed.
    mutating func text() throws(BackupManifest.SyntaxError) -> String {
        let text = bytes[position...].prefix { $0 != UInt8(ascii: "\"") }
        let read = String(decoding: text, as: UTF8.self)
        guard BackupManifest.printable(read) == read else { throw failure("printable characters") }
        position += text.count
        return read
    }
}

extension Substring {
    fileprivate var trimmed: String { String(drop { $0 == " " }) }
}
