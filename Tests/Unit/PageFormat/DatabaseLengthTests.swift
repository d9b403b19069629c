import PageFormat
import Testing

@Suite("The length of a database file")
struct DatabaseLengthTests {
    private func verdict(_ bytes: Int, _ pages: Int, _ committed: Set<UInt32>? = nil) -> DatabaseLength.Verdict {
        DatabaseLength(fileBytes: bytes, pageBytes: 512).verdict(pages: pages) { committed }
    }

    @Test("without a commit in the WAL the file has exactly the pages that the header counts")
    func headerCounts() {
        #expect(verdict(2048, 4) == .fits)
        for bytes in [2049, 2560, 4096] { #expect(verdict(bytes, 4) == .pageCountLowered, "\(bytes)") }
        for (bytes, missing) in [(2047, 1), (1536, 1), (513, 3), (512, 3), (511, 4), (0, 4)] {
            #expect(verdict(bytes, 4) == .pagesMissing(missing), "\(bytes)")
        }
    }

    @Test("after a commit the file may be longer, and pages may be in the WAL alone")
    func commitCounts() {
        #expect(verdict(4096, 4, [1]) == .fits && verdict(2049, 4, []) == .fits)
        #expect(verdict(1024, 4, [3, 4]) == .fits && verdict(1025, 4, [3, 4]) == .fits)
        // Page 3 is there by half, and of no commit.
        #expect(verdict(1100, 4, [4]) == .pagesMissing(1))
        // A page that is in the file already, or beyond the last page, stands for no other page.
        #expect(verdict(1024, 4, [1, 2, 3]) == .pagesMissing(1) && verdict(1024, 4, [3, 5]) == .pagesMissing(1))
    }

    @Test("a header that counts billions of pages costs no time")
    func largest() { #expect(verdict(512, Int(UInt32.max)) == .pagesMissing(Int(UInt32.max) - 1)) }

    @Test("the WAL is read only where the length is another one")
    func laziness() throws {
        let length = DatabaseLength(fileBytes: 1024, pageBytes: 512)
        var reads = 0
        for pages in [2, 3] {
            _ = length.verdict(pages: pages) {
                reads += 1
                return nil
            }
        }
        #expect(reads == 1)
    }

    @Test("pages count whole or started, and a file without a WAL has an exact number")
    func counts() {
        let length = DatabaseLength(fileBytes: 1025, pageBytes: 512)
        #expect(length.wholePages == 2 && length.startedPages == 3 && !length.isExactly(pages: 2))
        #expect(DatabaseLength(fileBytes: 1024, pageBytes: 512).isExactly(pages: 2))
    }
}
