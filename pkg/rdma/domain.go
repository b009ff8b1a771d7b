package rdma

// Domain is the project's one name: of the DRA driver, of its attributes and taints, of the API group, and the vendor
// of the CDI kinds.
const Domain = "rdma.dev"
