import Foundation
@testable import PageFormat
import StoreCrypto
import Testing

@Suite("Docs/Formats/Pages.md")
struct FormatDocumentTests {
    /// The offsets in the code, by the names under which the document tabulates them.
    private static let constants: [String: Int] = [
        "DatabaseHeader.Offset.magic": DatabaseHeader.Offset.magic,
        "DatabaseHeader.Offset.pageBytes": DatabaseHeader.Offset.pageBytes,
        "DatabaseHeader.Offset.writeVersion": DatabaseHeader.Offset.writeVersion,
        "DatabaseHeader.Offset.readVersion": DatabaseHeader.Offset.readVersion,
        "DatabaseHeader.Offset.reservedBytes": DatabaseHeader.Offset.reservedBytes,
        "DatabaseHeader.Offset.maximumPayloadFraction": DatabaseHeader.Offset.maximumPayloadFraction,
        "DatabaseHeader.Offset.minimumPayloadFraction": DatabaseHeader.Offset.minimumPayloadFraction,
        "DatabaseHeader.Offset.leafPayloadFraction": DatabaseHeader.Offset.leafPayloadFraction,
        "DatabaseHeader.Offset.changeCounter": DatabaseHeader.Offset.changeCounter,
        "DatabaseHeader.Offset.pageCount": DatabaseHeader.Offset.pageCount,
        "DatabaseHeader.Offset.schemaCookie": DatabaseHeader.Offset.schemaCookie,
        "DatabaseHeader.Offset.schemaFormat": DatabaseHeader.Offset.schemaFormat,
        "DatabaseHeader.Offset.largestRootPage": DatabaseHeader.Offset.largestRootPage,
        "DatabaseHeader.Offset.textEncoding": DatabaseHeader.Offset.textEncoding,
        "DatabaseHeader.Offset.userVersion": DatabaseHeader.Offset.userVersion,
        "DatabaseHeader.Offset.applicationID": DatabaseHeader.Offset.applicationID,
        "DatabaseHeader.Offset.expansion": DatabaseHeader.Offset.expansion,
        "DatabaseHeader.Offset.versionValidFor": DatabaseHeader.Offset.versionValidFor,
        "DatabaseHeader.Offset.libraryVersion": DatabaseHeader.Offset.libraryVersion,
        "WALHeader.Offset.magic": WALHeader.Offset.magic,
        "WALHeader.Offset.formatVersion": WALHeader.Offset.formatVersion,
        "WALHeader.Offset.pageBytes": WALHeader.Offset.pageBytes,
        "WALHeader.Offset.checkpointSequence": WALHeader.Offset.checkpointSequence,
        "WALHeader.Offset.salt1": WALHeader.Offset.salt1,
        "WALHeader.Offset.salt2": WALHeader.Offset.salt2,
        "WALHeader.Offset.checksum1": WALHeader.Offset.checksum1,
        "WALHeader.Offset.checksum2": WALHeader.Offset.checksum2,
        "WALHeader.headerBytes": WALHeader.headerBytes,
        "WALFrameHeader.Offset.pageNumber": WALFrameHeader.Offset.pageNumber,
        "WALFrameHeader.Offset.databasePages": WALFrameHeader.Offset.databasePages,
        "WALFrameHeader.Offset.salt1": WALFrameHeader.Offset.salt1,
        "WALFrameHeader.Offset.salt2": WALFrameHeader.Offset.salt2,
        "WALFrameHeader.Offset.checksum1": WALFrameHeader.Offset.checksum1,
        "WALFrameHeader.Offset.checksum2": WALFrameHeader.Offset.checksum2,
        "WALFrameHeader.headerBytes": WALFrameHeader.headerBytes,
        "WALIndex.Offset.formatVersion": WALIndex.Offset.formatVersion,
        "WALIndex.Offset.isInitialized": WALIndex.Offset.isInitialized,
        "WALIndex.Offset.frames": WALIndex.Offset.frames,
        "WALIndex.Offset.databasePages": WALIndex.Offset.databasePages,
        "WALIndex.Offset.checksum1": WALIndex.Offset.checksum1,
        "WALIndex.Offset.checksum2": WALIndex.Offset.checksum2,
        "WALIndex.Offset.salt1": WALIndex.Offset.salt1,
        "WALIndex.Offset.salt2": WALIndex.Offset.salt2,
        "WALIndex.Offset.headerChecksum1": WALIndex.Offset.headerChecksum1,
        "WALIndex.Offset.headerChecksum2": WALIndex.Offset.headerChecksum2,
        "WALIndex.Offset.copy": WALIndex.Offset.copy,
        "WALIndex.Offset.checkpointedFrames": WALIndex.Offset.checkpointedFrames,
        "WALIndex.Offset.readMarks": WALIndex.Offset.readMarks,
        "WALIndex.Offset.locks": WALIndex.Offset.locks,
        "WALIndex.headerBytes": WALIndex.headerBytes,
    ]

    /// The cells of all table rows.
    private static func rows() throws -> [[String]] {
        let document = try String(contentsOf: repositoryRoot.appending(path: "Docs/Formats/Pages.md"), encoding: .utf8)
        return document.split(separator: "\n").filter { $0.hasPrefix("|") }.map { line in
            line.split(separator: "|", omittingEmptySubsequences: false).dropFirst().dropLast()
                .map { $0.trimmingCharacters(in: .whitespaces) }
        }
    }

    @Test("the offset tables say what the code says")
    func agreesOnOffsets() throws {
        var documented: [String: Int] = [:]
        for row in try Self.rows() where row.count >= 4 && row[2].hasPrefix("`") {
            documented[row[2].trimmingCharacters(in: ["`"])] = Int(row[0])
        }
        #expect(documented == Self.constants)
    }

    @Test("the fields of a header neither overlap nor leave the header")
    func hasSoundFields() throws {
        for header in ["DatabaseHeader", "WALHeader", "WALFrameHeader"] {
            let fields = try Self.rows().filter { $0.count >= 4 && $0[2].hasPrefix("`\(header).Offset") }
                .compactMap { row in Int(row[0]).flatMap { start in Int(row[1]).map { start..<start + $0 } } }
            for (field, next) in zip(fields, fields.dropFirst()) { #expect(field.upperBound <= next.lowerBound) }
            let bytes = ["DatabaseHeader": 100, "WALHeader": 32, "WALFrameHeader": 24][header]
            #expect(fields.last?.upperBound == bytes)
        }
    }

    @Test("the table of reserves says what the code says", arguments: HashAlgorithm.allCases)
    func agreesOnReserves(hash: HashAlgorithm) throws {
        let name = ["sha1": "SHA-1", "sha256": "SHA-256", "sha512": "SHA-512"][hash.rawValue]
        let row = try #require(try Self.rows().first { $0.count == 3 && $0[0] == name })
        #expect(row == [name, "\(hash.digestBytes)", "\(CipherSettings(hmacHash: hash).reservedBytes)"])
    }
}
