import CipherStore
import PageFormat

/// Reads the encrypted pages of a backup, each compared with its hash; for several threads.
struct RepositoryPages: Sendable {
    private let repository: BackupRepository
    private let record: BackupRecord
    private let map: PageMap
    private let tables: [PageTable]

    /// Reads the map and all tables: 52 bytes of memory for each page.
    init(_ record: BackupRecord, in repository: BackupRepository) throws {
        self.repository = repository
        self.record = record
        map = try repository.map(of: record)
        tables = try repository.place.map(record.packs) {
            try repository.table($0, pageBytes: record.facts.pageBytes)
        }
    }

    private var pageBytes: Int { record.facts.pageBytes }

    /// Reads whole pages at their position in the database file.
    ///
    /// - Returns: The number of bytes read; fewer than the buffer holds where the database ends before.
    func read(at offset: Int, into buffer: UnsafeMutableRawBufferPointer) throws -> Int {
        let first = offset / pageBytes + 1
        let count = min(buffer.count / pageBytes, max(0, Int(record.facts.pages) - first + 1))
        var done = 0
        var index = count > 0 ? map.index(of: UInt32(first)) : 0
        while done < count {
            let run = map.runs[index]
            let page = UInt32(first + done)
            let pages = min(count - done, Int(run.last - page) + 1)
            let target = UnsafeMutableRawBufferPointer(
                rebasing: buffer[done * pageBytes..<(done + pages) * pageBytes])
            try read(pages, from: page, of: run, into: target)
            done += pages
            index += 1
        }
        return count * pageBytes
    }

    private func read(
        _ count: Int, from page: UInt32, of run: PageRun, into target: UnsafeMutableRawBufferPointer
    ) throws {
        if run.pack == PageRun.zeros {
            target.initializeMemory(as: UInt8.self, repeating: 0)
            return
        }
        let table = tables[Int(run.pack)]
        let name = ObjectKind.pack.name(record.packs[Int(run.pack)])
        let slot = Int(run.slot + (page - run.first))
        guard slot + count <= table.count else { throw repository.damaged("its object \(name) has too few pages") }
        let bytes = try repository.place.read(name, at: table.offset(ofSlot: slot), byteCount: target.count)
        guard let bytes, bytes.count == target.count else { throw repository.damaged("its object \(name) is cut off") }
        target.copyBytes(from: bytes)
        for place in 0..<count {
            let piece = UnsafeRawBufferPointer(
                rebasing: target[place * pageBytes..<(place + 1) * pageBytes])
            guard table.pageNumber(slot + place) == page + UInt32(place), try table.holds(piece, slot + place) else {
                throw repository.damaged("page \(page + UInt32(place)) in its object \(name) was changed")
            }
        }
    }
}
