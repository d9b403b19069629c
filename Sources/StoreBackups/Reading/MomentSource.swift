import CipherStore
import KeyCustody
import PageFormat
import StoreCrypto

/// A moment of a replica, to be restored: the pages of a base, and over them the last frame of each page.
struct MomentSource: RestorationSource {
    let repository: BackupRepository
    let moment: ReplicatedMoment
    private let base: ReplicaObject
    private let sidecarBytes: [UInt8]
    private let pages: UInt32
    private let places: [UInt32: FramePlace]

    /// Where the page of a frame is.
    private struct FramePlace {
        let segment: UInt32
        let offset: Int
    }

    /// Reads and verifies the base and all segments up to the moment: by their hashes, by the hash that each has of the one
    /// before, and by the checksums of the WAL.
    ///
    /// - Throws: `StoreError` `backupDamaged`; `CancellationError`; `SystemError`.
    init(_ moment: ReplicatedMoment, in repository: BackupRepository, isCancelled: () -> Bool) throws {
        (self.moment, self.repository) = (moment, repository)
        var former = try repository.replicaObject(ReplicaName(moment.storeID, base: moment.base, segment: 0))
        base = former.object
        var (sidecar, pages, places) = (base.sidecar, base.pages, [UInt32: FramePlace]())
        var pending: [UInt32: FramePlace] = [:]
        for number in 0..<moment.segment {
            if isCancelled() { throw CancellationError() }
            let name = ReplicaName(moment.storeID, base: moment.base, segment: number + 1)
            let next = try repository.replicaObject(name)
            guard Self.follows(next.object, former) else {
                throw repository.damaged("its object \(name.object) does not continue the one before it")
            }
            if !next.object.sidecar.isEmpty { sidecar = next.object.sidecar }
            next.object.forEachFrame { frame, header, offset in
                if (name.segment, frame) > (moment.commitSegment, moment.frame) { return }
                pending[header.pageNumber] = FramePlace(segment: name.segment, offset: offset)
                guard header.endsTransaction else { return }
                pages = header.databasePages
                places.merge(pending) { $1 }
                pending = [:]
            }
            former = next
        }
        (sidecarBytes, self.pages, self.places) = (sidecar, pages, places)
    }

    static func follows(_ object: ReplicaObject, _ former: ReplicaObject.Parsed) -> Bool {
        guard object.previous == former.hash, object.pageBytes == former.object.pageBytes else { return false }
        // A new run of the WAL begins with frame 1.
        return object.position == former.end || object.position.frame == 0
    }

    var name: String { "\(repository.place.description)@\(MomentText.text(moment.time))" }
    var attributesPath: String? { nil }
    var notices: [String] { [] }
    var foreignFiles: [String] { [] }

    func open(_ watch: BackupWatch, unlock: (Sidecar) throws -> SidecarKeys?) throws -> OpenedBackup {
        let sealed: UnauthenticatedSidecar
        do {
            sealed = try UnauthenticatedSidecar.parse(sidecarBytes)
        } catch {
            throw damaged("its sidecar cannot be read: \(error)")
        }
        let (keys, dataKey) = try self.unlock(sealed, unlock)
        var sidecar = sealed.claimed
        if sidecar.state == .rotating { sidecar = try sidecar.abandoningRotation() }
        guard sidecar.storeID == moment.storeID, sidecar.settings.pageBytes == base.pageBytes, sidecar.state == .ready
        else { throw damaged("its sidecar is not that of its pages") }
        return OpenedBackup(
            facts: BackupFacts(
                storeID: sidecar.storeID, epoch: sidecar.epoch, generation: sidecar.generation,
                created: moment.time / 1000, pageBytes: base.pageBytes, pages: pages),
            sidecar: sidecar, keys: keys,
            key: PageKey(dataKey, salt: sidecar.salt, settings: sidecar.settings), sha256: nil)
    }

    func makeReader() throws -> PageScan.Reader {
        let former = try RepositoryPages(base.record(), in: repository)
        let (pageBytes, total) = (base.pageBytes, Int(pages))
        return { [repository, places, moment] offset, buffer in
            let first = offset / pageBytes + 1
            let count = min(buffer.count / pageBytes, max(0, total - first + 1))
            // Pages of the base, as far as it has them: all others are in frames.
            let wanted = UnsafeMutableRawBufferPointer(rebasing: buffer[..<(count * pageBytes)])
            let got = try former.read(at: offset, into: wanted)
            // The page of SQLite's lock bytes is in no frame.
            UnsafeMutableRawBufferPointer(rebasing: wanted[got...]).initializeMemory(as: UInt8.self, repeating: 0)
            for place in 0..<count {
                guard let found = places[UInt32(first + place)] else { continue }
                let name = ReplicaName(moment.storeID, base: moment.base, segment: found.segment).object
                let page = try repository.place.read(name, at: found.offset, byteCount: pageBytes)
                guard let page, page.count == pageBytes else {
                    throw repository.damaged("its object \(name) is cut off")
                }
                UnsafeMutableRawBufferPointer(
                    rebasing: buffer[place * pageBytes..<(place + 1) * pageBytes]
                ).copyBytes(from: page)
            }
            return count * pageBytes
        }
    }

    func damaged(_ why: String) -> StoreError {
        StoreError(
            .backupDamaged, what: "The store cannot be restored as \"\(name)\".",
            why: "\(why.prefix(1).uppercased())\(why.dropFirst()).",
            remedy: "Restore an earlier moment, or a backup. Nothing was changed.")
    }
}

extension ReplicaObject {
    /// Calls a function with the number and the header of each frame, and the offset of its page in the object.
    func forEachFrame(_ body: (UInt32, WALFrameHeader, Int) -> Void) {
        let start = Offset.body + groups.count * Self.groupBytes + sidecar.count + packs.count * ObjectHash.byteCount
        frames.withUnsafeBytes { bytes in
            for index in 0..<Int(frameCount) {
                let place = index * strideBytes
                guard let header = WALFrameHeader(UnsafeRawBufferPointer(rebasing: bytes[place..<place + strideBytes]))
                else { return }
                body(position.frame + UInt32(index) + 1, header, start + place + WALFrameHeader.headerBytes)
            }
        }
    }
}

extension BackupRepository {
    /// Makes a store as it was at a moment, in the steps and with the errors of
    /// ``restore(_:to:unlockedBy:replacing:replacingAnyFile:progress:isCancelled:)``.
    ///
    /// Each page is authenticated. Without the key somebody who may write the repository cannot make a page, but could put
    /// older pages of the same key back: a replica has no seal of a key.
    ///
    /// - Parameter moment: Of ``moment(at:store:)``.
    @discardableResult
    public func restore(
        _ moment: ReplicatedMoment, to path: String, unlockedBy source: KeySource, replacing isReplacing: Bool = false,
        replacingAnyFile isReplacingAnyFile: Bool = false, progress: (@Sendable (BackupProgress) -> Void)? = nil,
        isCancelled: @escaping @Sendable () -> Bool = { false }
    ) throws -> RestorationReport {
        let lock = try place.lockForUse(isWriting: false, isCancelled)
        defer { lock.release() }
        return try SharedStore.restore(
            from: MomentSource(moment, in: self, isCancelled: isCancelled), to: path, unlockedBy: source,
            replacing: isReplacing, replacingAnyFile: isReplacingAnyFile,
            watch: BackupWatch(progress: progress, isCancelled: isCancelled))
    }
}
