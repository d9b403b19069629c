import Testing

@testable import ChangesetSync

@Suite("The slices of a long join follow the time that they take")
struct SlicePaceTests {
    @Test("slow rows make short slices, quick rows longer ones, in steps")
    func pace() {
        var pace = SlicePace()
        let first = pace.rows
        pace.note(first, SlicePace.aim * 4)
        #expect(pace.rows == first / 4)
        pace.note(pace.rows, SlicePace.aim / 100)
        #expect(pace.rows == first / 4 * 3 / 2)
        for _ in 0..<100 { pace.note(pace.rows, .seconds(60)) }
        #expect(pace.rows >= 100)
    }

    @Test("a transaction with few rows, as the last one of a join, changes nothing")
    func last() {
        var pace = SlicePace()
        let first = pace.rows
        pace.note(3, .seconds(5))
        pace.note(first, .zero)
        #expect(pace.rows == first)
    }
}
