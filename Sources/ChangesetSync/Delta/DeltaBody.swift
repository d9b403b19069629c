/// A delta with the names of its columns: what a commit stores and an envelope carries. Docs/Formats/Changeset.md
/// describes it.
enum DeltaBody {
    /// The only version.
    static let version: UInt8 = 1
    /// The offset of the version; Docs/Formats/Changeset.md tabulates it.
    static let versionOffset = 0
    /// The offset of the number of tables.
    static let tableCountOffset = 1
}

extension Delta {
    /// The bytes of the delta with the names of its columns. Equal deltas have equal bytes.
    package func encoded() -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(SessionFormat.byteCount(of: self) + 16)
        bytes.append(DeltaBody.version)
        Varint.append(tables.count, to: &bytes)
        for table in tables {
            Varint.append(table.table.columns.count, to: &bytes)
            for name in table.table.columns {
                Varint.append(name.utf8.count, to: &bytes)
                bytes.append(contentsOf: name.utf8)
            }
        }
        SessionFormat.append(self, to: &bytes)
        return bytes
    }

    /// Reads the bytes of ``encoded()``; every other encoding of the same delta is refused.
    ///
    /// - Throws: ``DeltaError`` with an offset that counts from the first of the bytes.
    package init(encoded bytes: ArraySlice<UInt8>) throws(DeltaError) {
        do {
            self = try Self.read(bytes)
        } catch {
            throw error.counted(from: bytes.startIndex)
        }
    }

    private static func read(_ bytes: ArraySlice<UInt8>) throws(DeltaError) -> Delta {
        var reader = ByteReader(bytes)
        guard let version = reader.byte() else { throw DeltaError(.truncated, at: reader.index) }
        guard version == DeltaBody.version else {
            throw DeltaError(.unsupportedVersion(version), at: bytes.startIndex + DeltaBody.versionOffset)
        }
        let count = try DeltaError.length(reader.varint(), at: reader.index).value
        // Each table takes several bytes: a greater number cannot be true.
        guard count <= reader.remaining else { throw DeltaError(.truncated, at: reader.index) }
        var names: [[String]] = []
        for _ in 0..<count { names.append(try columnNames(&reader)) }
        let session = reader.bytes[reader.index...]
        let tables = try SessionFormat.read(session, mustBeCanonical: true) { _, count, number throws(DeltaError) in
            guard number < names.count else { throw DeltaError(.trailingBytes) }
            guard names[number].count == count else { throw DeltaError(.columnCount(count)) }
            return names[number]
        }
        guard tables.count == count else { throw DeltaError(.truncated, at: bytes.endIndex) }
        for (table, next) in zip(tables, tables.dropFirst()) where !DeltaTable.precedes(table.table, next.table) {
            throw DeltaError(.notCanonical, at: session.startIndex)
        }
        do { try refuseDuplicates(tables.map(\.table)) } catch { throw DeltaError(error.code, at: session.startIndex) }
        return Delta(canonical: tables)
    }

    private static func columnNames(_ reader: inout ByteReader) throws(DeltaError) -> [String] {
        let place = reader.index
        let count = try DeltaError.length(reader.varint(), at: place).value
        guard (1...Limits.columns).contains(count) else { throw DeltaError(.columnCount(count), at: place) }
        var names: [String] = []
        for _ in 0..<count {
            let start = reader.index
            let length = try DeltaError.length(reader.varint(), at: start).value
            guard let bytes = reader.take(length) else { throw DeltaError(.truncated, at: start) }
            guard let name = String(validating: bytes, as: UTF8.self) else { throw DeltaError(.notUTF8, at: start) }
            names.append(name)
        }
        return names
    }
}
