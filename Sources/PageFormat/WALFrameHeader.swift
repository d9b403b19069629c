/// The 24 bytes before each page in a WAL.
package struct WALFrameHeader: Hashable, Sendable {
    /// Bytes of the header; the page follows.
    package static let headerBytes = 24

    /// Offsets of the fields; Docs/Formats/Pages.md tabulates them.
    package enum Offset {
        package static let pageNumber = 0
        package static let databasePages = 4
        static let salt1 = 8
        static let salt2 = 12
        package static let checksum1 = 16
        package static let checksum2 = 20
    }

    /// The number of the page in the frame; 0 in no valid frame.
    package var pageNumber: UInt32
    /// Pages of the database after the commit that this frame ends; 0 in a frame that does not end one.
    package var databasePages: UInt32
    /// Must be those of the WAL's header.
    package var salts: WALSalts
    /// Over all frames up to and including this one.
    package var checksum: WALChecksum

    /// Reads a frame header of at least 24 bytes; nil for fewer.
    package init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count >= WALFrameHeader.headerBytes else { return nil }
        pageNumber = bytes.bigEndian(at: Offset.pageNumber, as: UInt32.self)
        databasePages = bytes.bigEndian(at: Offset.databasePages, as: UInt32.self)
        salts = WALSalts(bytes, at: Offset.salt1)
        checksum = WALChecksum(bytes, at: Offset.checksum1)
    }

    /// Reads the header of a whole frame that continues a WAL; nil for the frame that ends it.
    ///
    /// - Parameter checksum: The running checksum before the frame; after it on return.
    package init?(_ frame: UnsafeRawBufferPointer, continuing checksum: inout WALChecksum, of header: WALHeader) {
        guard let found = WALFrameHeader(frame), found.belongs(to: header) else { return nil }
        checksum.add(frame: frame, bigEndian: header.checksumsAreBigEndian)
        guard checksum == found.checksum else { return nil }
        self = found
    }

    /// Whether the salts are those of a WAL, and the frame has a page.
    func belongs(to header: WALHeader) -> Bool { salts == header.salts && pageNumber > 0 }

    /// Whether the frame ends a transaction.
    package var endsTransaction: Bool { databasePages > 0 }
}
