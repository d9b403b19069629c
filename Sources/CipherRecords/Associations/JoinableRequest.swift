import CipherDatabase

/// A request that tables can be joined to.
public protocol JoinableRequest<RowDecoder>: TypedRequest, RelationRequest {}

// The association calls of requests, record types and tables.

extension JoinableRequest {
    /// Fetches all rows of an association as well, by a query of their own. They are found under the association's key in
    /// the plural: `var books: [Book]`.
    public func including<A: AssociationToMany>(all association: A) -> Self
    where A.OriginRowDecoder == RowDecoder {
        changed { $0.add(association.chain.prefetch) }
    }

    /// The rows for which the association has a row, with that row under the association's key.
    public func including<A: Association>(required association: A) -> Self
    where A.OriginRowDecoder == RowDecoder {
        changed { $0.add(association.chain.join(.required, includesColumns: true)) }
    }

    /// Adds the row that an association leads to, if there is one, under the association's key.
    public func including<A: Association>(optional association: A) -> Self
    where A.OriginRowDecoder == RowDecoder {
        changed { $0.add(association.chain.join(.optional, includesColumns: true)) }
    }

    /// The rows for which the association has a row, without that row's columns.
    public func joining<A: Association>(required association: A) -> Self
    where A.OriginRowDecoder == RowDecoder {
        changed { $0.add(association.chain.join(.required, includesColumns: false)) }
    }

    /// Joins the row that an association leads to, if there is one, without its columns: for conditions and orders.
    public func joining<A: Association>(optional association: A) -> Self
    where A.OriginRowDecoder == RowDecoder {
        changed { $0.add(association.chain.join(.optional, includesColumns: false)) }
    }

    /// The rows for which the association has a row, with that row's columns added.
    public func annotated<A: Association>(withRequired association: A) -> Self
    where A.OriginRowDecoder == RowDecoder {
        changed { $0.annotate(with: association.chain, .required) }
    }

    /// Adds the columns of the row that an association leads to; NULL where there is none.
    public func annotated<A: Association>(withOptional association: A) -> Self
    where A.OriginRowDecoder == RowDecoder {
        changed { $0.annotate(with: association.chain, .optional) }
    }
}

extension Relation {
    /// Joins a chain of associations, and selects the columns of its destination as its own.
    fileprivate mutating func annotate(with chain: AssociationChain, _ kind: Join.Kind) {
        add(chain.join(kind, includesColumns: false))
        selection.append(.located(chain.path, chain.destination.relation.selection))
    }
}

extension TableRecord {
    /// Fetches all rows of an association as well, by a query of their own. They are found under the association's key in
    /// the plural: `var books: [Book]`.
    public static func including<A: AssociationToMany>(all association: A) -> QueryInterfaceRequest<Self>
    where A.OriginRowDecoder == Self {
        all().including(all: association)
    }

    /// The rows for which the association has a row, with that row under the association's key.
    public static func including<A: Association>(required association: A) -> QueryInterfaceRequest<Self>
    where A.OriginRowDecoder == Self {
        all().including(required: association)
    }

    /// Adds the row that an association leads to, if there is one, under the association's key.
    public static func including<A: Association>(optional association: A) -> QueryInterfaceRequest<Self>
    where A.OriginRowDecoder == Self {
        all().including(optional: association)
    }

    /// The rows for which the association has a row, without that row's columns.
    public static func joining<A: Association>(required association: A) -> QueryInterfaceRequest<Self>
    where A.OriginRowDecoder == Self {
        all().joining(required: association)
    }

    /// Joins the row that an association leads to, if there is one, without its columns: for conditions and orders.
    public static func joining<A: Association>(optional association: A) -> QueryInterfaceRequest<Self>
    where A.OriginRowDecoder == Self {
        all().joining(optional: association)
    }

    /// The rows for which the association has a row, with that row's columns added.
    public static func annotated<A: Association>(withRequired association: A) -> QueryInterfaceRequest<Self>
    where A.OriginRowDecoder == Self {
        all().annotated(withRequired: association)
    }

    /// Adds the columns of the row that an association leads to; NULL where there is none.
    public static func annotated<A: Association>(withOptional association: A) -> QueryInterfaceRequest<Self>
    where A.OriginRowDecoder == Self {
        all().annotated(withOptional: association)
    }
}

extension Table {
    /// Fetches all rows of an association as well, by a query of their own. They are found under the association's key in
    /// the plural: `var books: [Book]`.
    public func including<A: AssociationToMany>(all association: A) -> QueryInterfaceRequest<RowDecoder>
    where A.OriginRowDecoder == RowDecoder {
        all().including(all: association)
    }

    /// The rows for which the association has a row, with that row under the association's key.
    public func including<A: Association>(required association: A) -> QueryInterfaceRequest<RowDecoder>
    where A.OriginRowDecoder == RowDecoder {
        all().including(required: association)
    }

    /// Adds the row that an association leads to, if there is one, under the association's key.
    public func including<A: Association>(optional association: A) -> QueryInterfaceRequest<RowDecoder>
    where A.OriginRowDecoder == RowDecoder {
        all().including(optional: association)
    }

    /// The rows for which the association has a row, without that row's columns.
    public func joining<A: Association>(required association: A) -> QueryInterfaceRequest<RowDecoder>
    where A.OriginRowDecoder == RowDecoder {
        all().joining(required: association)
    }

    /// Joins the row that an association leads to, if there is one, without its columns: for conditions and orders.
    public func joining<A: Association>(optional association: A) -> QueryInterfaceRequest<RowDecoder>
    where A.OriginRowDecoder == RowDecoder {
        all().joining(optional: association)
    }

    /// The rows for which the association has a row, with that row's columns added.
    public func annotated<A: Association>(withRequired association: A) -> QueryInterfaceRequest<RowDecoder>
    where A.OriginRowDecoder == RowDecoder {
        all().annotated(withRequired: association)
    }

    /// Adds the columns of the row that an association leads to; NULL where there is none.
    public func annotated<A: Association>(withOptional association: A) -> QueryInterfaceRequest<RowDecoder>
    where A.OriginRowDecoder == RowDecoder {
        all().annotated(withOptional: association)
    }
}
// MARK: - Aggregates

extension DerivableRequest {
    /// Adds aggregates of associations to what is selected: `Author.annotated(with: Author.books.count)`.
    public func annotated(with aggregates: AssociationAggregate<RowDecoder>...) -> Self { annotated(with: aggregates) }

    /// Adds aggregates of associations to what is selected.
    public func annotated(with aggregates: [AssociationAggregate<RowDecoder>]) -> Self {
        changed { relation in
            for aggregate in aggregates { relation.selection.append(.expression(relation.add(aggregate))) }
        }
    }

    /// The rows for which a condition on aggregates of associations is true as well.
    public func having(_ predicate: AssociationAggregate<RowDecoder>) -> Self {
        changed { relation in
            let condition = relation.add(predicate).unnamed
            relation.having.append(condition)
        }
    }
}

extension Relation {
    /// Joins the tables of an aggregate, and groups the rows so that each of them is still one.
    ///
    /// - Returns: The aggregate, with its name.
    fileprivate mutating func add<T>(_ aggregate: AssociationAggregate<T>) -> Term {
        for chain in aggregate.chains { add(chain.join(.optional, includesColumns: false)) }
        let key = Term(.fastKey(.request))
        if groups != [key] { groups = [key] }
        return aggregate.key.map { Term(.apply(.named($0), [aggregate.term])) } ?? aggregate.term
    }
}

extension TableRecord {
    /// Adds aggregates of associations to what is selected: `Author.annotated(with: Author.books.count)`.
    public static func annotated(with aggregates: AssociationAggregate<Self>...) -> QueryInterfaceRequest<Self> {
        all().annotated(with: aggregates)
    }

    /// Adds aggregates of associations to what is selected.
    public static func annotated(with aggregates: [AssociationAggregate<Self>]) -> QueryInterfaceRequest<Self> {
        all().annotated(with: aggregates)
    }

    /// The rows for which a condition on aggregates of associations is true.
    public static func having(_ predicate: AssociationAggregate<Self>) -> QueryInterfaceRequest<Self> {
        all().having(predicate)
    }
}

extension Table {
    /// Adds aggregates of associations to what is selected.
    public func annotated(with aggregates: AssociationAggregate<RowDecoder>...) -> QueryInterfaceRequest<RowDecoder> {
        all().annotated(with: aggregates)
    }

    /// Adds aggregates of associations to what is selected.
    public func annotated(with aggregates: [AssociationAggregate<RowDecoder>]) -> QueryInterfaceRequest<RowDecoder> {
        all().annotated(with: aggregates)
    }

    /// The rows for which a condition on aggregates of associations is true.
    public func having(_ predicate: AssociationAggregate<RowDecoder>) -> QueryInterfaceRequest<RowDecoder> {
        all().having(predicate)
    }
}
