import PageFormat

/// A position in a WAL: everything up to a frame of one of its runs.
struct FramePosition: Hashable, Sendable {
    let salts: WALSalts
    /// Frames count from 1; 0 is the position before the first one.
    let frame: UInt32
    /// The running checksum at the frame; before the first one, that of the header.
    let checksum: WALChecksum
    /// Whether the checksums of the run read their words in big-endian order.
    let isBigEndian: Bool

    init(salts: WALSalts, frame: UInt32, checksum: WALChecksum, isBigEndian: Bool) {
        (self.salts, self.frame, self.checksum, self.isBigEndian) = (salts, frame, checksum, isBigEndian)
    }

    /// The position before the first frame of a run.
    init(beginning header: WALHeader) {
        self.init(
            salts: header.salts, frame: 0, checksum: header.checksum, isBigEndian: header.checksumsAreBigEndian)
    }

    /// The position that a format has written in numbers.
    init(
        salt1: UInt32, salt2: UInt32, frame: UInt32, checksum1: UInt32, checksum2: UInt32, isBigEndian: Bool
    ) {
        // A frame's header has the same numbers.
        var bytes: [UInt8] = []
        for number in [1, 0, salt1, salt2, checksum1, checksum2] { bytes.append(number: number) }
        guard let header = bytes.withUnsafeBytes({ WALFrameHeader($0) }) else {
            preconditionFailure("24 bytes are the header of a frame.")
        }
        self.init(salts: header.salts, frame: frame, checksum: header.checksum, isBigEndian: isBigEndian)
    }

    /// A WAL without frames.
    static let empty = FramePosition(
        salt1: 0, salt2: 0, frame: 0, checksum1: 0, checksum2: 0, isBigEndian: false)

    /// The header of the run, as far as frames are compared with it.
    func header(pageBytes: Int) -> WALHeader {
        var header = WALHeader(ofFramesWith: salts, pageBytes: pageBytes)
        header.checksumsAreBigEndian = isBigEndian
        return header
    }

    func advanced(to frame: UInt32, _ checksum: WALChecksum) -> FramePosition {
        FramePosition(salts: salts, frame: frame, checksum: checksum, isBigEndian: isBigEndian)
    }
}
