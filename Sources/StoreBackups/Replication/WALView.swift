import CipherStore
import PageFormat
import StorePlatform
import StoreSharing

/// The committed content of the WAL of a held store, without a key.
///
/// While a connection is open the index says what is committed. Otherwise the frames say it, as the next opening will find
/// them.
struct WALView {
    /// The content at a moment.
    struct State: Hashable {
        /// nil for a WAL that has no frame and no header.
        let salts: WALSalts?
        let frames: UInt32
        /// Pages at the last commit; 0 where the WAL has none.
        let pages: UInt32
        /// Frames that the database file has.
        let copiedFrames: UInt32
        /// Whether a connection is open.
        let isLive: Bool

        /// Whether the database file has everything.
        var isCopied: Bool { copiedFrames >= frames }
    }

    private let paths: StorePaths
    private let pageBytes: Int
    /// The salts that the header of the WAL and its index had in common.
    private var knownSalts: WALSalts?
    /// The last scan of a WAL that no connection has open.
    private var scanned: (bytes: Int, modified: Duration, state: State)?

    init(_ paths: StorePaths, pageBytes: Int) {
        self.paths = paths
        self.pageBytes = pageBytes
    }

    /// - Returns: nil while it changes.
    mutating func state(_ hold: WALHold) throws -> State? {
        switch try hold.liveIndex() {
        case .changing: return nil
        case .settled(let index):
            scanned = nil
            return try state(index)
        case .none:
            knownSalts = nil
            return try scan()
        }
    }

    private mutating func state(_ index: WALIndex) throws -> State? {
        let none = State(salts: nil, frames: 0, pages: index.databasePages, copiedFrames: 0, isLive: true)
        // Without frames it may not know the size of a page either.
        guard index.frames > 0 else { return none }
        guard index.pageBytes == pageBytes else { throw foreign("its index has pages of another size") }
        if index.salts != knownSalts {
            let file = try open()
            guard try hasHeader(file, index.salts) else {
                // The last close has emptied the WAL, or the index is about to be made anew.
                return try file.status().byteCount == 0 && index.checkpointedFrames >= index.frames ? none : nil
            }
            knownSalts = index.salts
        }
        return State(
            salts: index.salts, frames: index.frames, pages: index.databasePages,
            copiedFrames: index.checkpointedFrames, isLive: true)
    }

    private func hasHeader(_ file: OpenFile, _ salts: WALSalts) throws -> Bool {
        (try? header(file, salts)) != nil
    }

    private mutating func scan() throws -> State? {
        guard let status = try Files.ownStatus(of: paths.wal), status.byteCount > 0 else {
            return State(salts: nil, frames: 0, pages: 0, copiedFrames: 0, isLive: false)
        }
        if let scanned, scanned.bytes == status.byteCount, scanned.modified == status.modified { return scanned.state }
        let file = try open()
        let found = try WALScan.scan(fileBytes: status.byteCount) { try file.read(at: $0, into: $1) }
        if let found, found.header.pageBytes != pageBytes { throw foreign("it has pages of another size") }
        let frames = found?.committedFrames ?? 0
        let state = State(
            salts: frames > 0 ? found?.header.salts : nil, frames: frames, pages: found?.databasePages ?? 0,
            copiedFrames: 0, isLive: false)
        scanned = (status.byteCount, status.modified, state)
        return state
    }

    // MARK: Frames

    private func open() throws(SystemError) -> OpenFile {
        OpenFile(try FileDescriptor(opening: paths.wal, .readOnly, followsLinks: false, mustBeRegular: true))
    }

    /// The position before the first frame of the present run.
    ///
    /// - Throws: `StoreError` `walDamaged` where the WAL is of another run.
    func beginning(of salts: WALSalts) throws -> FramePosition { FramePosition(beginning: try header(open(), salts)) }

    private func header(_ file: OpenFile, _ salts: WALSalts) throws -> WALHeader {
        let bytes = try file.read(at: 0, byteCount: WALHeader.headerBytes)
        guard let header = bytes.withUnsafeBytes({ WALHeader($0) }), header.salts == salts,
            header.pageBytes == pageBytes
        else { throw foreign("its header has other salts than its index") }
        return header
    }

    /// Walks frames after a position, and verifies salts and checksums.
    ///
    /// - Parameter visit: Is given the number, the header and the bytes of each frame.
    /// - Returns: The position after the last frame.
    /// - Throws: `StoreError` `walDamaged`; `SystemError`.
    func walk(
        from start: FramePosition, through last: UInt32,
        visit: (UInt32, WALFrameHeader, UnsafeRawBufferPointer) throws -> Void
    ) throws -> FramePosition {
        guard last > start.frame else { return start }
        let file = try open()
        let header = try header(file, start.salts)
        var checksum = start.checksum
        let end = try WALWalk.wholeFrames(start.frame + 1...last, of: header) {
            try file.read(at: $0, into: $1)
        } visit: { number, frame in
            guard let found = WALFrameHeader(frame, continuing: &checksum, of: header) else { return false }
            try visit(number, found, frame)
            return true
        }
        guard end > last else { throw foreign("frame \(end) does not continue the frames before it") }
        return start.advanced(to: last, checksum)
    }

    /// The pages of frames, read at any time while the run is kept.
    func pageReader() throws -> (_ frame: UInt32, _ page: UnsafeMutableRawBufferPointer) throws -> Void {
        let (file, pageBytes) = (try open(), pageBytes)
        return { frame, page in
            let offset = WALHeader.offset(ofFrame: frame, pageBytes: pageBytes) + WALFrameHeader.headerBytes
            guard try file.read(at: offset, into: page) == page.count else {
                throw foreign("frame \(frame) is missing")
            }
        }
    }

    /// Whether a frame with this position's checksum is where the position says, whatever the header of the WAL is now.
    func has(_ position: FramePosition) throws -> Bool {
        guard position.frame > 0, try Files.kindOfName(paths.wal) == .regular else { return false }
        return try frameHeader(position.frame, open()).map {
            $0.salts == position.salts && $0.checksum == position.checksum
        } ?? false
    }

    /// Whether the WAL was reset once since a position, and the former run ended there: the frames of a former run stay until
    /// later ones overwrite them.
    func wasReset(after position: FramePosition, to salts: WALSalts) throws -> Bool {
        guard salts.first == position.salts.first &+ 1, try has(position) else { return false }
        let file = try open()
        let offset = WALHeader.offset(ofFrame: position.frame + 1, pageBytes: pageBytes)
        let next = try file.read(at: offset, byteCount: WALFrameHeader.headerBytes + pageBytes)
        var checksum = position.checksum
        return next.withUnsafeBytes {
            $0.count < WALFrameHeader.headerBytes + pageBytes
                || WALFrameHeader($0, continuing: &checksum, of: position.header(pageBytes: pageBytes)) == nil
        }
    }

    private func frameHeader(_ frame: UInt32, _ file: OpenFile) throws -> WALFrameHeader? {
        let offset = WALHeader.offset(ofFrame: frame, pageBytes: pageBytes)
        let bytes = try file.read(at: offset, byteCount: WALFrameHeader.headerBytes)
        return bytes.withUnsafeBytes { WALFrameHeader($0) }
    }

    private func foreign(_ why: String) -> StoreError {
        StoreError(
            .walDamaged, what: "The WAL of \"\(paths.database)\" cannot be replicated.",
            why: "\(why.prefix(1).uppercased())\(why.dropFirst()).",
            remedy:
                "If the error persists, run cipherctl verify on the store. A new base follows when the WAL is whole.")
    }
}
